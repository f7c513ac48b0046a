package watch

import (
	"fmt"
	"sync"
	"testing"

	"github.com/conclave-project/conclave/internal/session"
)

// TestReportsOfManyWatchesAreReadInPortions, while others come and go: those that stay are
// all there, once.
func TestReportsOfManyWatchesAreReadInPortions(t *testing.T) {
	table := New()
	const stay = 3*reportMax + 1
	for i := range stay {
		table.Add(1, Data, fmt.Sprintf("/stays%d", i))
	}
	var changes sync.WaitGroup
	done := make(chan struct{})
	changes.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
				table.Add(2, Data, fmt.Sprintf("/goes%d", i%100))
				if i%1000 == 999 {
					table.Forget(2)
				}
			}
		}
	})
	for range 5 {
		if paths := table.ByConn()[1]; len(paths) != stay {
			t.Errorf("%d paths, not %d", len(paths), stay)
		}
		if conns := table.ByPath()["/stays7"]; len(conns) != 1 || conns[0] != session.ConnID(1) {
			t.Errorf("/stays7 is watched by %v", conns)
		}
	}
	close(done)
	changes.Wait()
}
