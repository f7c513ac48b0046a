package prep

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/conclave-project/conclave/internal/auth"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/zk"
)

// TestRefusedRequestsLeaveNoTrace decides the same random requests twice: once all of them, once
// without those that are refused. The decisions, the digests and the outstanding changes must be
// the same (prep-D1, prep-D4). Every transaction must apply without an error (prep-D2) and lead
// to its digest (prep-D3), both on a leader, which applies with what the decision found out, and
// on a follower, which does not have that.
func TestRefusedRequestsLeaveNoTrace(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 11))
			all, only := newTwin(), newTwin()
			only.follows = true
			refused := 0
			for i := range 3000 {
				r := randomWrite(random, twinPaths, 0)
				zxid := zk.Zxid(i + 1)
				txn, digest := all.decide(&r, zxid)
				if isRefusal(&txn) {
					refused++
				} else if again, same := only.decide(&r, zxid); !reflect.DeepEqual(again, txn) || same != digest {
					t.Fatalf("%d %s: decided %+v, without the refused ones %+v", i, r.Op, txn, again)
				}
				compareTwins(t, all, only)
				for len(all.queue) > random.IntN(8) {
					all.apply(t)
				}
				for len(only.queue) > 0 && (len(all.queue) == 0 || only.queue[0].head.Zxid < all.queue[0].head.Zxid) {
					only.apply(t)
				}
			}
			if refused < 300 {
				t.Errorf("only %d were refused", refused)
			}
			for _, w := range []*twin{all, only} {
				for len(w.queue) > 0 {
					w.apply(t)
				}
				if o := &w.prep.outstanding; o.size() != 0 || len(o.byPath) != 0 || len(o.byOwner) != 0 || len(o.made) != 0 || len(o.ended) != 0 {
					t.Errorf("all is applied, and this is left: %d changes, %v, %v, %v, %v", o.size(), o.byPath, o.byOwner, o.made, o.ended)
				}
			}
		})
	}
}

type twin struct {
	tree    *tree.Tree
	prep    *Prep
	queue   []decided
	follows bool // it applies what the other has decided
}

type decided struct {
	head zk.TxnHeader
	Decision
}

func newTwin() *twin {
	tr := tree.New(tree.Options{ExtendedTypes: true})
	return &twin{tree: tr, prep: New(tr, Options{Auth: &auth.Rules{}, TxnBytesMax: 600})}
}

func (w *twin) decide(r *zk.Request, zxid zk.Zxid) (zk.Txn, zk.Digest) {
	session := zk.SessionID(1 + zxid%3)
	o := &Origin{Session: session, Alive: true, Identities: bob(), Zxid: zxid, TimeMs: int64(zxid) * 10}
	var d Decision
	w.prep.Decide(r, o, &d)
	head := zk.TxnHeader{Session: session, Zxid: zxid, Time: o.TimeMs, Op: d.Txn.Op}
	if n := len(txn.Append(nil, &head, &d.Txn, d.Digest)); n > txnBytes(&d.Txn) {
		panic(fmt.Sprintf("%v has %d bytes, and at most %d were expected", d.Txn.Op, n, txnBytes(&d.Txn)))
	}
	w.queue = append(w.queue, decided{head, d})
	return d.Txn, d.Digest
}

func (w *twin) apply(t *testing.T) {
	t.Helper()
	d := &w.queue[0]
	var out tree.Applied
	if w.follows {
		d.Known = tree.Known{}
	}
	w.tree.ApplyKnown(&d.head, &d.Txn, &d.Known, &out)
	w.prep.Applied(d.head.Zxid)
	w.queue = w.queue[1:]
	if isRefusal(&d.Txn) {
		return
	}
	if out.Result.Code != zk.OK {
		t.Fatalf("D2: %s fails with %v when it is applied", d.Txn.Op, out.Result.Code)
	}
	for i := range out.Result.Sub {
		if out.Result.Sub[i].Code != zk.OK {
			t.Fatalf("D2: part %d fails with %v when it is applied", i, out.Result.Sub[i].Code)
		}
	}
	if d.Digest.Version != 0 && d.Digest != w.tree.Digest() {
		t.Fatalf("D3: %s has digest %d, the tree %d", d.Txn.Op, d.Digest.Value, w.tree.Digest().Value)
	}
}

func isRefusal(t *zk.Txn) bool {
	if t.Op == zk.OpError {
		return true
	}
	for i := range t.Sub {
		if t.Sub[i].Op == zk.OpError {
			return true
		}
	}
	return false
}

// checkOrder checks that each outstanding change points to the previous change of its path.
func checkOrder(t *testing.T, o *outstanding) {
	t.Helper()
	last := map[string]*change{}
	for _, c := range o.queue[o.head:] {
		if c.ends != 0 {
			continue
		}
		if before := last[c.path]; before != nil && (c.before != before || before.current) {
			t.Fatalf("%s: a change does not know the one before it", c.path)
		}
		last[c.path] = c
	}
	for path, c := range last {
		if o.byPath[path] != c || !c.current {
			t.Fatalf("%s: the last change is not the last", path)
		}
	}
}

// compareTwins compares the outstanding changes one by one.
func compareTwins(t *testing.T, a, b *twin) {
	t.Helper()
	checkOrder(t, &a.prep.outstanding)
	if a.prep.Digest() != b.prep.Digest() || a.prep.Outstanding() != b.prep.Outstanding() {
		t.Fatalf("%d changes to digest %d, without the refused ones %d to %d",
			a.prep.Outstanding(), a.prep.Digest(), b.prep.Outstanding(), b.prep.Digest())
	}
	if len(a.prep.outstanding.byPath) != len(b.prep.outstanding.byPath) {
		t.Fatal("different paths are outstanding")
	}
	for path, c := range a.prep.outstanding.byPath {
		d := b.prep.outstanding.byPath[path]
		if d == nil || !c.current || !d.current {
			t.Fatalf("%s is outstanding in one only", path)
		}
		x, y := *c, *d
		x.before, y.before = nil, nil
		if !reflect.DeepEqual(x, y) {
			t.Fatalf("%s: %+v, without the refused ones %+v", path, x, y)
		}
	}
}

var twinPaths = []string{"/a", "/a/x", "/a/x/y", "/b", "/b/z", "/c", "/zookeeper/new"}

func randomWrite(random *rand.Rand, paths []string, depth int) zk.Request {
	r := node(paths[random.IntN(len(paths))], data(random.IntN(150)))
	if random.IntN(4) == 0 {
		r.Version = int32(random.IntN(4))
	}
	switch n := random.IntN(20); {
	case n < 6:
		r.Mode = zk.CreateMode(random.IntN(4))
	case n < 7:
		r.Op = zk.OpCreateContainer
	case n < 8:
		r.Op, r.Mode, r.TTL = zk.OpCreateTTL, zk.PersistentTTL, 5000
	case n < 11:
		r.Op = zk.OpSetData
	case n < 15:
		r.Op = zk.OpDelete
	case n < 16 && depth == 0:
		r.Op = zk.OpSetACL
	case n < 17 && depth == 0:
		r.Op = zk.OpCloseSession
	case depth == 0:
		r = zk.Request{Op: zk.OpMulti, Ops: []zk.Request{}}
		for range random.IntN(6) {
			r.Ops = append(r.Ops, randomWrite(random, paths, 1))
		}
	default:
		r.Op = zk.OpCheck
	}
	return r
}
