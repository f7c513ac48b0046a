package holders_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/holders"
)

// TestBlockedLogGathersNoGoroutines: each act has electors of its own, and none of them
// waits for ever for an OnEvent that does not return; what that has missed is counted.
func TestBlockedLogGathersNoGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bubble{time.Now()}
		full := make(chan struct{})
		told, missed := 0, 0
		lock, err := holders.NewRWLock(electiontest.NewStore(c), "tables", 2, election.Options{Lease: lockLease, Clock: c,
			OnEvent: func(e election.Event) {
				<-full
				told, missed = told+1, missed+e.Missed
			}})
		if err != nil {
			t.Fatal(err)
		}
		before := runtime.NumGoroutine()
		const acts = 200
		for i := range acts {
			act := lock.Read
			if i%2 > 0 {
				act = lock.Write
			}
			if err := act(t.Context(), func(context.Context, holders.Held) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		if more := runtime.NumGoroutine() - before; more > 10 {
			t.Errorf("%d goroutines are left of %d acts", more, acts)
		}
		close(full)
		synctest.Wait()
		if all := told + missed; all < 8*acts || missed == 0 {
			t.Errorf("of %d acts %d events were told and %d missed", acts, told, missed)
		}
	})
}
