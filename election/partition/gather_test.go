package partition

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestReportsAreGatheredForAsLongAsADecisionDeserves: a thousand partitions that start together
// have some thousand reports, and deciding after each of them took more time than all else.
func TestReportsAreGatheredForAsLongAsADecisionDeserves(t *testing.T) {
	for _, rest := range []time.Duration{0, restLeast / 2, restLeast, 20 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			r := &run{reports: make(chan func(), 64), done: make(chan struct{})}
			ctx, end := context.WithCancel(t.Context())
			var sender sync.WaitGroup
			handled := 0
			sender.Go(func() {
				for ctx.Err() == nil {
					r.report(func() { handled++ })
					time.Sleep(time.Millisecond / 4)
				}
			})
			synctest.Wait() // the first report has arrived
			began := time.Now()
			r.gather(rest)
			took, want := time.Since(began), rest
			if rest < restLeast {
				want = 0
			}
			if took != want || handled < 1+int(4*want/time.Millisecond)-1 {
				t.Errorf("rest %v: it took %v and handled %d reports", rest, took, handled)
			}
			end()
			close(r.done)
			sender.Wait()
		})
	}
}
