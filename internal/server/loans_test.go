package server

import (
	"testing"

	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// The loop lends buffers to outboxes that outgrow what a quiet connection keeps, and at most so
// many in a step that ten thousand outboxes do not hold as many loans. The next step begins
// with none.
func TestLoopLendsABoundedPartInAStep(t *testing.T) {
	s := start(t, vfs.NewMem(), nil)
	p := dial(t, s, nil)
	lent, small := 0, 0
	s.inspect(func(*replica.Replica) {
		o := &s.conns.all()[0].out
		o.mu.Lock()
		defer o.mu.Unlock()
		before := o.bytes
		for range 2 * lentMax {
			for _, length := range []int{outboxKeep/2 - 1, outboxKeep / 2} {
				o.bytes = make([]byte, length)
				o.lend()
				if len(o.bytes) != length {
					t.Errorf("%d bytes are %d on loan", length, len(o.bytes))
				}
				if cap(o.bytes) == loanBytes && length < outboxKeep/2 {
					small++
				} else if cap(o.bytes) == loanBytes {
					lent++
				}
				spareOf(o.bytes)
			}
		}
		o.bytes = before
	})
	if lent != lentMax || small != 0 {
		t.Errorf("%d loans in a step, %d of them for little; %d are allowed", lent, small, lentMax)
	}
	p.must(zk.OK, create("/a", "", 0)) // a step
	s.inspect(func(*replica.Replica) { lent = s.lent })
	if lent != 0 {
		t.Errorf("%d loans after a step", lent)
	}
}
