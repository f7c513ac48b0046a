package tree

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/zk"
)

// usages returns the usages that the quotas of a tree show, except that of the root, which is
// counted when it is created, as in ZooKeeper.
func usages(t *Tree) string {
	all := map[string]Usage{}
	for limited := range t.quotas {
		if _, ok := t.find(zk.QuotaPath + limited + "/" + statsName); ok && limited != "" {
			_, all[limited] = t.QuotaState(limited)
		}
	}
	return fmt.Sprint(all)
}

// walked returns the same by a walk over all znodes: each counts for the deepest quota at or
// above it.
func walked(t *Tree) string {
	all := map[string]Usage{}
	for limited := range t.quotas {
		if _, ok := t.find(zk.QuotaPath + limited + "/" + statsName); ok && limited != "" {
			all[limited] = Usage{}
		}
	}
	s := t.NewScan()
	defer s.End()
	for e := (Entry{}); next(s, &e); {
		limited, _ := t.QuotaOf(e.Path)
		if u, ok := all[limited]; ok {
			all[limited] = Usage{u.Count + 1, u.Bytes + int64(len(e.Data))}
		}
	}
	return fmt.Sprint(all)
}

// checkSums compares the sums of every znode with those of its children.
func checkSums(t *testing.T, tree *Tree) {
	t.Helper()
	top := uint32(rootNode)
	for id := top; id != noNode; id = tree.following(id, top) {
		n := tree.nodes.At(id)
		want := Usage{1, int64(tree.dataBytes(n))}
		for child := tree.first(id); child != noNode; child = tree.nodes.At(child).next {
			c := tree.nodes.At(child)
			if u := tree.counted(c); !tree.restOf(c).limited {
				want = Usage{want.Count + u.Count, want.Bytes + u.Bytes}
			}
		}
		if got := tree.counted(n); got != want {
			t.Fatalf("%s counts %v, and its children make %v", tree.path(id), got, want)
		}
	}
}

// reloaded is the tree as a restarted server has it.
func reloaded(t *testing.T, tree *Tree) *Tree {
	t.Helper()
	again := New(tree.opts)
	l := again.Load()
	tree.ACLs(func(id int64, entries []zk.ACL) { l.ACL(id, entries) })
	s := tree.NewScan()
	defer s.End()
	for e := (Entry{}); next(s, &e); {
		if err := l.Node(e.Path, e.Data, e.ACL, e.Stat); err != nil {
			t.Fatal(err)
		}
	}
	l.Finish(tree.last)
	return again
}

// The usage of a quota follows from the tree alone: a server that was restarted shows the same
// as one that was not. There are quotas below quotas, limits and limited znodes that come and
// go, and clients that write the usage themselves.
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
		limited := []string{"", "/a", "/a/a", "/a/a/b", "/a/b", zk.SystemPath, zk.QuotaPath, zk.QuotaPath + "/a"}
		create("/a")
		create(zk.QuotaPath + zk.SystemPath)
		for _, path := range limited {
			create(zk.QuotaPath + path)
		}
		for range 600 {
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
			case n.NumChildren() == 0:
				w.apply(1, zk.Txn{Op: zk.OpDelete, Path: quota})
			}
			if got, want := usages(w.tree), walked(w.tree); got != want {
				t.Fatalf("seed %d, after %s: usages %v, and counted again %v", seed, quota, got, want)
			}
			checkSums(t, w.tree)
			if r.IntN(20) == 0 {
				again := reloaded(t, w.tree)
				if got, want := usages(again), usages(w.tree); got != want {
					t.Fatalf("seed %d: usages %v, and after a restart %v", seed, want, got)
				}
				checkSums(t, again)
				w.tree = again
			}
		}
	}
}

// The root has no quota, whatever znodes a client creates. Its usage was counted once, and a
// server that was restarted shows the same as one that was not.
func TestRootHasNoQuota(t *testing.T) {
	w := newWorld(1)
	shown := func(tree *Tree) string {
		n, _ := tree.Find(zk.QuotaPath + "/" + statsName)
		return string(n.Data())
	}
	for _, path := range []string{zk.QuotaPath + "/" + limitsName, zk.QuotaPath + "/" + statsName, "/a", "/a/b"} {
		w.apply(1, zk.Txn{Op: zk.OpCreate, Path: path, ACL: zk.OpenACL(), Data: []byte("1234"), ParentCversion: -1})
	}
	if got, want := shown(reloaded(t, w.tree)), shown(w.tree); got != want || len(w.tree.Quotas()) > 0 {
		t.Errorf("after a restart the root uses %s, and before it %s; quotas of %q", got, want, w.tree.Quotas())
	}
}

// Creating and deleting a quota znode costs only its depth: a client that may write nothing but
// /zookeeper/quota must not make every server count the znodes of others. The list of children
// below the path has no end here, so that a walk over it fails.
func TestQuotaIsMadeWithoutAWalk(t *testing.T) {
	w := newWorld(1)
	create := func(path string) {
		w.apply(1, zk.Txn{Op: zk.OpCreate, Path: path, ACL: zk.OpenACL(), Data: []byte("1234"), ParentCversion: 1})
	}
	for _, path := range []string{"/data", "/data/a", "/data/b", "/data/b/c", zk.QuotaPath + "/data", zk.QuotaPath + "/data/b"} {
		create(path)
	}
	a, _ := w.tree.find("/data/a")
	w.tree.nodes.At(a).next = 1 << 31 // no such record
	for range 3 {
		made := []string{"/data/" + limitsName, "/data/" + statsName, "/data/b/" + statsName, "/data/b/" + limitsName, "/" + statsName}
		for _, path := range made {
			create(zk.QuotaPath + path)
		}
		if got, want := usages(w.tree), "map[/data:{2 8} /data/b:{2 8}]"; got != want {
			t.Fatalf("usages %s, want %s", got, want)
		}
		w.apply(1, zk.Txn{Op: zk.OpDelete, Path: zk.QuotaPath + "/data/b/" + limitsName})
		if got, want := usages(w.tree), "map[/data:{4 16}]"; got != want {
			t.Fatalf("without the deeper quota: usages %s, want %s", got, want)
		}
		for _, path := range made {
			w.apply(1, zk.Txn{Op: zk.OpDelete, Path: zk.QuotaPath + path})
		}
	}
}

// A client may create a quota for each of its znodes, and write all their usages at once. That
// costs the sum of what they count, also at a start: not a walk over everything for each of
// them.
func TestManyQuotasCostTheirSum(t *testing.T) {
	w := newWorld(1)
	create := func(path string) {
		w.apply(1, zk.Txn{Op: zk.OpCreate, Path: path, ACL: zk.OpenACL(), ParentCversion: 1})
	}
	create("/a")
	create(zk.QuotaPath + "/a")
	const quotas = 30_000
	var touch zk.Txn
	began := time.Now()
	for i := range quotas {
		path := fmt.Sprint("/a/", i)
		quota := zk.QuotaPath + path
		create(path)
		create(quota)
		create(quota + "/" + statsName)
		create(quota + "/" + limitsName)
		touch.Sub = append(touch.Sub, zk.Txn{Op: zk.OpSetData, Path: quota + "/" + statsName, Data: []byte("x"), Version: 1})
	}
	made := time.Since(began)
	began = time.Now()
	touch.Op = zk.OpMulti
	w.apply(1, touch)
	again := reloaded(t, w.tree)
	if took := time.Since(began); took > 10*made { // a third of it, or fifty times as long
		t.Errorf("%d quotas were made in %v, and took %v", quotas, made, took)
	}
	if _, u := again.QuotaState("/a/7"); u != (Usage{1, 0}) {
		t.Errorf("usage %+v", u)
	}
}

// TestLimitsAreReadWhenTheyAreWritten: not with each write below the limited path, of which a
// transaction may have forty thousand, and not the whole of a text of a megabyte.
func TestLimitsAreReadWhenTheyAreWritten(t *testing.T) {
	w := newWorld(1)
	create := func(path, data string) {
		w.apply(0, zk.Txn{Op: zk.OpCreate, Path: path, Data: []byte(data), ACL: zk.OpenACL(), ParentCversion: -1})
	}
	set := func(path, data string) { w.apply(0, zk.Txn{Op: zk.OpSetData, Path: path, Data: []byte(data)}) }
	limits := zk.QuotaPath + "/q/" + limitsName
	create("/q", "")
	create(zk.QuotaPath+"/q", "")
	create(limits, "count=1,bytes=2")
	create(zk.QuotaPath+"/q/"+statsName, "")
	state := func() Limits {
		l, _ := w.tree.QuotaState("/q")
		return l
	}
	if got := state(); got != (Limits{Count: 1, Bytes: 2, CountHard: -1, BytesHard: -1}) {
		t.Errorf("%+v", got)
	}
	set(limits, strings.Repeat(" ", limitsTextMax)+"count=7")
	if got := state(); got != (Limits{-1, -1, -1, -1}) {
		t.Errorf("%+v: of a long text", got)
	}
	set(limits, "countHardLimit=3")
	id, _ := w.tree.find(limits)
	n := w.tree.nodes.At(id)
	w.tree.replace(n, []byte("count=9")) // nobody has written that, so nobody reads it
	create("/q/a", "data")
	if got := state(); got != (Limits{-1, -1, 3, -1}) {
		t.Errorf("%+v", got)
	}
	if _, u := w.tree.QuotaState("/q"); u != (Usage{2, 4}) {
		t.Errorf("%+v", u)
	}
}

// TestLimitsAreWrittenAsZooKeepersToolsWriteThem, with the example of its StatsTrack, in the
// order of its keys.
func TestLimitsAreWrittenAsZooKeepersToolsWriteThem(t *testing.T) {
	for text, limits := range map[string]Limits{
		"count=4,bytes=5=;byteHardLimit=11;countHardLimit=10":   {4, 5, 10, 11},
		"count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=-1": {-1, -1, -1, -1},
	} {
		if got := limits.Text(); got != text {
			t.Errorf("%+v is written as %q, expected %q", limits, got, text)
		}
		if got := ParseLimits(text); got != limits {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
	for path, want := range map[string]string{
		"/":    "/zookeeper/quota/zookeeper_limits /zookeeper/quota/zookeeper_stats",
		"/a/b": "/zookeeper/quota/a/b/zookeeper_limits /zookeeper/quota/a/b/zookeeper_stats",
	} {
		if limits, usage := QuotaZnodes(path); limits+" "+usage != want {
			t.Errorf("%s: %s %s", path, limits, usage)
		}
	}
}
