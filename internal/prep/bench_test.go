package prep

import (
	"fmt"
	"testing"

	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/zk"
)

// Outstanding changes are kept in maps that are emptied and reused, so in a leader's
// steady state deciding a set allocates nothing.
func TestADecisionOfASetAllocatesNothing(t *testing.T) {
	w := newBench(t, false, Options{})
	w.done(node("/a"))
	origin := w.origin()
	r := zk.Request{Op: zk.OpSetData, Path: "/a", Data: make([]byte, 100), Version: -1}
	var applied tree.Applied
	var head zk.TxnHeader
	var txn zk.Txn
	if got := testing.AllocsPerRun(100, func() {
		txn, _ = decide(w.prep, &r, origin)
		head = zk.TxnHeader{Session: origin.Session, Zxid: origin.Zxid, Time: origin.TimeMs, Op: txn.Op}
		w.tree.Apply(&head, &txn, &applied)
		w.prep.Applied(origin.Zxid)
		origin.Zxid++
	}); got != 0 || applied.Result.Code != zk.OK {
		t.Errorf("%v allocations, %v", got, applied.Result.Code)
	}
}

// BenchmarkDecide measures 64 writes that a leader decides before it applies the first of them.
func BenchmarkDecide(b *testing.B) {
	data := make([]byte, 100)
	for _, c := range []struct {
		name string
		next func(n int) zk.Request
	}{
		{"set", func(n int) zk.Request {
			return zk.Request{Op: zk.OpSetData, Path: fmt.Sprint("/parent/old-", n%64), Data: data, Version: -1}
		}},
		{"create", func(n int) zk.Request { return node(fmt.Sprint("/parent/new-", n)) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			w := newBench(b, false, Options{})
			w.done(node("/parent"))
			for n := range 64 {
				w.done(node(fmt.Sprint("/parent/old-", n)))
			}
			requests := make([]zk.Request, 0, 64*b.N)
			for n := range 64 * b.N {
				requests = append(requests, c.next(n))
			}
			origin := w.origin()
			heads, txns := make([]zk.TxnHeader, 64), make([]zk.Txn, 64)
			var applied tree.Applied
			b.ReportAllocs()
			b.ResetTimer()
			for n := range b.N {
				for i := range 64 {
					w.zxid++
					origin.Zxid = w.zxid
					txns[i], _ = decide(w.prep, &requests[64*n+i], origin)
					heads[i] = zk.TxnHeader{Session: origin.Session, Zxid: origin.Zxid, Time: origin.TimeMs, Op: txns[i].Op}
				}
				for i := range 64 {
					if w.tree.Apply(&heads[i], &txns[i], &applied); applied.Result.Code != zk.OK {
						b.Fatal(applied.Result.Code)
					}
					w.prep.Applied(heads[i].Zxid)
				}
			}
		})
	}
}
