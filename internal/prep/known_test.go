package prep

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/zk"
)

// To apply a set or a create that was decided here, the tree need not compute the sum of path
// and data again. For operations without such a sum, Known is empty.
func TestADecisionKnowsTheSumOfTheBody(t *testing.T) {
	w := newTwin()
	set := zk.Request{Op: zk.OpSetData, Path: "/a", Data: make([]byte, 3), Version: -1}
	none := zk.Request{Op: zk.OpDelete, Path: "/none", Version: -1}
	var data []byte // of /a until now
	for i, r := range []zk.Request{
		node("/a"), none, set, {Op: zk.OpMulti, Ops: []zk.Request{set}}, set, {Op: zk.OpDelete, Path: "/a", Version: -1},
		node("/a"), {Op: zk.OpCreate, Path: "/a", ACL: zk.OpenACL()}, set, {Op: zk.OpCloseSession},
	} {
		txn, _ := w.decide(&r, zk.Zxid(i+1))
		known := w.queue[len(w.queue)-1].Known
		if i%2 == 1 {
			if known != (tree.Known{}) {
				t.Errorf("%s: %+v is known", r.Op, known)
			}
			continue
		}
		want, before := tree.BodySum(txn.Path, txn.Data, new(tree.Scratch)), uint32(0)
		if r.Op == zk.OpSetData {
			before = tree.BodySum(txn.Path, data, new(tree.Scratch))
		}
		if !known.Summed || known.BodySum != want || known.Before != before {
			t.Errorf("%s: %+v, not %x, %x before", r.Op, known, want, before)
		}
		data = txn.Data
	}
}

// The digest of a decision equals that of the tree, which is the sum over all its znodes (prep-D3,
// tree-N3). This holds with quotas, ephemerals, containers, multis that are refused in part, the
// configuration, and fetches in between, on a leader and on a follower.
func TestDigestIsThatOfAllZnodes(t *testing.T) {
	quotas := 0
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 5))
		w := newTwin()
		w.follows = seed%2 == 1
		var fetcher tree.Fetcher
		for i := range 2500 {
			r := randomWrite(random, quotaPaths, 0)
			if random.IntN(30) == 0 {
				r = zk.Request{Op: zk.OpDeleteContainer, Path: r.Path}
			} else if len(r.Path) > 20 {
				r.Data = []byte("count=3,bytes=50")
			}
			w.decide(&r, zk.Zxid(i+1))
			checkOrder(t, &w.prep.outstanding)
			if i%3 == 0 {
				for _, path := range quotaPaths {
					fetcher.Add(path)
				}
				fetcher.Fetch(w.tree)
			}
			if random.IntN(50) == 0 {
				w.tree.PutConfig(make([]byte, random.IntN(60)), zk.Zxid(i), 7)
			}
			for len(w.queue) > random.IntN(12) {
				w.apply(t)
			}
			if len(w.queue) == 0 && w.prep.Digest() != w.tree.Digest().Value {
				t.Fatalf("seed %d, step %d: %x is decided, the tree has %x", seed, i, w.prep.Digest(), w.tree.Digest().Value)
			}
			if i%20 == 0 {
				quotas += len(w.tree.Quotas())
				if sum := sumBelow(w.tree, "/"); sum != w.tree.Digest().Value {
					t.Fatalf("seed %d, step %d: the znodes sum to %x, the digest is %x", seed, i, sum, w.tree.Digest().Value)
				}
			}
		}
		if fetcher.Total() == 0 {
			t.Error("nothing was fetched")
		}
	}
	if quotas < 20 {
		t.Errorf("there was a quota %d times", quotas)
	}
}

var quotaPaths = []string{
	"/", "/a", "/a/x", "/a/x-y", "/a/x-y/z", "/a/x/y", "/a/z", "/b", "/b/z", "/c", "/zookeeper", "/zookeeper/new", "/zookeeper/quota",
	"/zookeeper/quota/a", "/zookeeper/quota/a/zookeeper_limits", "/zookeeper/quota/a/zookeeper_stats", zk.ConfigPath,
}

// sumBelow computes the digest of a subtree from its znodes.
func sumBelow(t *tree.Tree, path string) uint64 {
	n, ok := t.Find(path)
	if !ok {
		panic(fmt.Sprintf("%s is a child, and is not there", path))
	}
	var scratch tree.Scratch
	stat, own, below := n.Persisted(), path, path+"/"
	if path == "/" {
		own, below = "", "/"
	}
	body := tree.BodySum(path, n.Data(), &scratch)
	if kept := n.BodySum(path, &scratch); kept != body {
		panic(fmt.Sprintf("%s has the sum %x, and is said to have %x", path, body, kept))
	}
	sum := tree.Checksum(own, body, &stat, &scratch)
	for _, name := range n.Children(nil) {
		sum += sumBelow(t, below+name)
	}
	return sum
}
