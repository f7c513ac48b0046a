package watch

import (
	"fmt"
	"sync"
	"testing"

	"github.com/conclave-project/conclave/internal/session"
)

// TestReportsOfManyWatchesAreReadInPortions, while other watches come and go: those that stay
// are all reported, once.
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
		byConn, left := table.ByConn()
		if paths := byConn[1]; len(paths) != stay || left != 0 {
			t.Errorf("%d paths, not %d, and %d left out", len(paths), stay, left)
		}
		byPath, _ := table.ByPath()
		if conns := byPath["/stays7"]; len(conns) != 1 || conns[0] != session.ConnID(1) {
			t.Errorf("/stays7 is watched by %v", conns)
		}
	}
	close(done)
	changes.Wait()
}

// The memory of many watches is bounded in a report of them, too, which says how many it lacks.
func TestReportsHaveALimit(t *testing.T) {
	table := New()
	const of = 2*reportMax + 5
	for conn := range session.ConnID(3) {
		for i := range of {
			table.Add(conn+1, Data, fmt.Sprintf("/%09d", i))
		}
	}
	for _, test := range []struct{ bytesMax, paths int }{
		{3 * of * (10 + 16), 3 * of}, {of * (10 + 16), 2*of - reportMax - 5}, {1, reportMax},
	} {
		out, left := table.byConn(test.bytesMax)
		paths := 0
		for _, all := range out {
			paths += len(all)
		}
		if paths != test.paths || left != 3*of-paths {
			t.Errorf("%d bytes: %d paths, %d left out of %d", test.bytesMax, paths, left, 3*of)
		}
	}
}
