package tree

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/conclave-project/conclave/zk"
)

// What a quota's usage is follows from the tree alone: a server that was restarted has the
// same as one that was not, with quotas below quotas, limits that come and go, and clients
// that write the usage themselves.
func TestUsageFollowsFromTheTree(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(seed)
		create := func(path string) {
			if _, ok := w.tree.Find(path); !ok {
				if up, ok := w.tree.Find(zk.ParentPath(path)); ok {
					w.apply(1, zk.Txn{Op: zk.OpCreate, Path: path, ACL: zk.OpenACL(), Data: make([]byte, r.IntN(9)), ParentCversion: up.Persisted().Cversion + 1})
				}
			}
		}
		below := func() string {
			path := "/a"
			for range r.IntN(4) {
				path += "/" + string(rune('a'+r.IntN(2)))
			}
			return path
		}
		limited := []string{"/a", "/a/a", "/a/a/b", "/a/b"}
		create("/a")
		for _, path := range limited {
			create(zk.QuotaPath + path)
		}
		for range 400 {
			quota := zk.QuotaPath + limited[r.IntN(len(limited))]
			if r.IntN(5) > 0 {
				quota = below()
			} else {
				quota += "/" + []string{limitsName, statsName}[r.IntN(2)]
			}
			n, exists := w.tree.Find(quota)
			switch {
			case !exists:
				create(quota)
			case r.IntN(2) == 0:
				w.apply(1, zk.Txn{Op: zk.OpSetData, Path: quota, Data: make([]byte, r.IntN(9)), Version: n.Stat().Version + 1})
			case n.NumChildren() == 0 && quota != "/a":
				w.apply(1, zk.Txn{Op: zk.OpDelete, Path: quota})
			}
			var before, after []string
			usages := func() (all []string) {
				for _, path := range w.tree.Quotas() {
					_, u := w.tree.QuotaState(path)
					all = append(all, fmt.Sprint(path, u))
				}
				return all
			}
			before = usages()
			w.tree.rebuildQuotas()
			if after = usages(); fmt.Sprint(before) != fmt.Sprint(after) {
				t.Fatalf("seed %d, behind %s: %v, and counted again %v", seed, quota, before, after)
			}
		}
	}
}
