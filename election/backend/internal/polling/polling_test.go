package polling

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestPausesFollowTheLeaseOfTheLeader(t *testing.T) {
	for _, test := range []struct{ set, lease, want time.Duration }{
		{0, 10 * time.Second, 2 * time.Second},
		{0, time.Millisecond, 100 * time.Millisecond},
		{0, time.Hour, 5 * time.Second},
		{time.Second, time.Hour, time.Second},
	} {
		if got := New(test.set, 100*time.Millisecond).of(test.lease); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}

// TestWaitsDiffer by a tenth either way, each according to the lease of its own election.
func TestWaitsDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(0, 100*time.Millisecond)
		p.Note("a", 10*time.Second)
		p.Note("b", time.Second)
		for name, pause := range map[string]time.Duration{"a": 2 * time.Second, "b": 200 * time.Millisecond} {
			least, most := time.Hour, time.Duration(0)
			for range 200 {
				began := time.Now()
				if err := p.Wait(t.Context(), name, time.Hour); err != nil {
					t.Fatal(err)
				}
				took := time.Since(began)
				least, most = min(least, took), max(most, took)
			}
			if least < pause*9/10 || most > pause*11/10 || most-least < pause/10 {
				t.Errorf("%s: waits of %v to %v", name, least, most)
			}
		}
	})
}

func TestAWaitHonoursItsLimitAndItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, began := New(time.Hour, 0), time.Now()
		if err := p.Wait(t.Context(), "e", time.Millisecond); err != nil || time.Since(began) != time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("enough")
		time.AfterFunc(time.Second, func() { cancel(why) })
		if err := p.Wait(ctx, "e", time.Hour); !errors.Is(err, why) {
			t.Error(err)
		}
	})
}

func TestKnownLeasesAreBounded(t *testing.T) {
	p := New(0, 0)
	for i := range 2 * leasesMax {
		p.Note(fmt.Sprint(i), time.Second)
		if len(p.leases) > leasesMax {
			t.Fatalf("%d elections", len(p.leases))
		}
	}
}
