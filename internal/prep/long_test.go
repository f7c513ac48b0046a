package prep

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/auth"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/zk"
)

// A multi has as many parts, and an ACL as many entries, as fit in a frame. The cost
// of a decision must be their sum, not their product, because the server does nothing
// else meanwhile.
func TestManyPartsAskALongListOnce(t *testing.T) {
	sumNotProduct(t, 10_000, func(parts int) time.Duration {
		b, entries := newBench(t, false, Options{}), 2*parts
		create := zk.Request{Op: zk.OpCreate, Path: "/b", Mode: zk.Persistent}
		for i := range entries {
			create.ACL = append(create.ACL, zk.ACL{Perms: zk.PermAll, Identity: zk.Identity{Scheme: "ip", ID: fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)}})
		}
		create.ACL = append(create.ACL, zk.ACL{Perms: zk.PermAll, Identity: zk.Identity{Scheme: "ip", ID: "127.0.0.1"}})
		decide := func(r *zk.Request) zk.Txn {
			o := b.origin()
			o.Identities = auth.Connected("127.0.0.1")
			txn, _ := decide(b.prep, r, o)
			return txn
		}
		decide(&create)
		multi := zk.Request{Op: zk.OpMulti}
		for range parts {
			multi.Ops = append(multi.Ops, zk.Request{Op: zk.OpSetData, Path: "/b", Version: -1})
		}
		all := func() {
			if txn := decide(&multi); len(txn.Sub) != parts || txn.Sub[parts-1].Op != zk.OpSetData {
				t.Fatalf("refused: %v", txn.Sub[0])
			}
		}
		return awaittest.Cost(func() func() { return all })
	})
}

// sumNotProduct compares the cost of many with that of an eighth as many: 8 times as much if the
// cost is linear, 64 times if it is quadratic.
func sumNotProduct(t *testing.T, many int, cost func(n int) time.Duration) {
	t.Helper()
	few, all := cost(many/8), cost(many)
	t.Logf("%d take %v, and %d take %v", many/8, few, many, all)
	if all > 32*few {
		t.Errorf("%d take %v, and %d take %v", many/8, few, many, all)
	}
}

// When many sessions end together, as after the loss of a site, the cost is linear: each
// session looks at its own changes, not at all outstanding ones.
func TestManySessionsEndTogether(t *testing.T) {
	sumNotProduct(t, 40_000, func(sessions int) time.Duration {
		return awaittest.Cost(func() func() {
			b := newBench(t, false, Options{})
			of := func(i int) *Origin {
				o := b.origin()
				o.Session = zk.SessionID(i + 1)
				return o
			}
			for i := range sessions {
				txn, _ := decide(b.prep, &zk.Request{Op: zk.OpCreate, Path: fmt.Sprint("/e", i), ACL: zk.OpenACL(), Mode: zk.Ephemeral}, of(i))
				if txn.Op != zk.OpCreate {
					t.Fatalf("refused: %v", txn)
				}
			}
			return func() {
				for i := range sessions {
					if txn, _ := decide(b.prep, &zk.Request{Op: zk.OpCloseSession}, of(i)); len(txn.Paths) != 1 {
						t.Fatalf("session %d ends with %v", i+1, txn.Paths)
					}
				}
			}
		})
	})
}

// BenchmarkEndOfASession measures what one ephemeral costs at the end of its session:
// the leader to decide it, in one step, and every server to apply it.
func BenchmarkEndOfASession(b *testing.B) {
	const owned = 200_000
	var decided, applied time.Duration
	for b.Loop() {
		bench := newBench(b, false, Options{})
		for i := range owned {
			bench.done(node(fmt.Sprint("/ephemeral-", i), mode(zk.Ephemeral)))
		}
		began := time.Now()
		o := bench.origin()
		txn, _ := decide(bench.prep, &zk.Request{Op: zk.OpCloseSession}, o)
		decided += time.Since(began)
		began = time.Now()
		bench.tree.Apply(&zk.TxnHeader{Session: o.Session, Zxid: o.Zxid, Time: o.TimeMs, Op: txn.Op}, &txn, &tree.Applied{})
		bench.prep.Applied(o.Zxid)
		applied += time.Since(began)
	}
	b.ReportMetric(float64(decided.Nanoseconds())/float64(b.N*owned), "ns-decide/znode")
	b.ReportMetric(float64(applied.Nanoseconds())/float64(b.N*owned), "ns-apply/znode")
}

// An entry "auth" stands for every identity of the connection. The list that
// 60,000 of them stand for is never built, neither for one request nor for the
// parts of a multi.
func TestListThatGrowsTooLongIsNeverMade(t *testing.T) {
	b := newBench(t, false, Options{TxnBytesMax: 1 << 20})
	o := b.origin()
	for i := range 255 {
		o.Identities = append(o.Identities, zk.Identity{Scheme: "digest", ID: fmt.Sprint("user", i, ":x")})
	}
	lists := func(parts, entries int) *zk.Request {
		r := &zk.Request{Op: zk.OpMulti}
		for i := range parts {
			part := zk.Request{Op: zk.OpCreate, Path: fmt.Sprint("/n", i), Mode: zk.Persistent}
			for j := range entries {
				part.ACL = append(part.ACL, zk.ACL{Perms: zk.Perms(j), Identity: zk.Identity{Scheme: "auth"}})
			}
			r.Ops = append(r.Ops, part)
		}
		return r
	}
	one, many := &lists(1, 60_000).Ops[0], lists(1000, 60)
	for name, r := range map[string]*zk.Request{"one": one, "many": many} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		txn, _ := decide(b.prep, r, o)
		runtime.ReadMemStats(&after)
		if made := after.TotalAlloc - before.TotalAlloc; made > 100<<20 {
			t.Errorf("%s: %d MB were made", name, made>>20)
		}
		for len(txn.Sub) > 0 && txn.Sub[0].Op != zk.OpError {
			txn.Sub = txn.Sub[1:]
		}
		if len(txn.Sub) > 0 {
			txn = txn.Sub[0]
		}
		if txn.Op != zk.OpError || txn.Code != zk.ErrBadArguments && txn.Code != zk.ErrRuntimeInconsistency {
			t.Errorf("%s: %v, %v", name, txn.Op, txn.Code)
		}
	}
	if txn, _ := decide(b.prep, &lists(1, 2).Ops[0], o); txn.Op != zk.OpCreate || len(txn.ACL) != 2*len(o.Identities) {
		t.Errorf("two entries: %v with %d", txn.Op, len(txn.ACL))
	}
}
