package holders_test

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/holders"
	"github.com/conclave-project/conclave/internal/bubble"
)

// TestBlockedLogGathersNoGoroutines: each act has electors of its own, and none of them waits
// forever for an OnEvent that does not return. The events that such an OnEvent has missed are
// counted, and of each leadership it is told both the beginning and the end, or neither.
func TestBlockedLogGathersNoGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bubble.Clock(1)
		full := make(chan struct{})
		told, missed := 0, 0
		var lasting []election.Token // one of several places may have the same token as another
		lock, err := holders.NewRWLock(electiontest.NewStore(c), "tables", 2, election.Options{Lease: lockLease, Clock: c,
			OnEvent: func(e election.Event) {
				if len(lasting) > 0 {
					<-full
				}
				told, missed = told+1, missed+e.Missed
				switch i := slices.Index(lasting, e.Token); {
				case e.Kind == election.EventElected:
					lasting = append(lasting, e.Token)
				case e.Kind == election.EventLost && i < 0:
					t.Errorf("a leadership is lost whose beginning was not told: %+v", e)
				case e.Kind == election.EventLost:
					lasting = slices.Delete(lasting, i, i+1)
				}
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
		if err := lock.Read(t.Context(), func(context.Context, holders.Held) error { return nil }); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(lasting) > 0 {
			t.Errorf("the ends of leaderships %d are not told", lasting)
		}
		if all := told + missed; all < 8*acts || missed == 0 {
			t.Errorf("of %d acts %d events were told and %d missed", acts, told, missed)
		}
	})
}
