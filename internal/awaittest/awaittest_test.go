package awaittest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// witness is a test that records that it has failed.
type witness struct {
	testing.TB
	failed bool
}

func (w *witness) Helper() {}

func (w *witness) Fatalf(string, ...any) {
	w.failed = true
	panic(w) // like Fatalf, it does not return
}

// Errorf records the failure and returns.
func (w *witness) Errorf(string, ...any) { w.failed = true }

func waits(what func() bool) (failed bool, took time.Duration) {
	w, began := &witness{}, time.Now()
	func() {
		defer func() { _ = recover() }()
		Until(w, "it holds", what)
	}()
	return w.failed, time.Since(began)
}

func TestWaitEndsWithItsConditionOrItsPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if failed, took := waits(func() bool { return true }); failed || took != 0 {
			t.Errorf("what holds at once: failed %v after %v", failed, took)
		}
		at := time.Now().Add(40 * time.Second)
		if failed, took := waits(func() bool { return !time.Now().Before(at) }); failed || took != 40*time.Second {
			t.Errorf("what holds after 40 s: failed %v after %v", failed, took)
		}
		if failed, took := waits(func() bool { return false }); !failed || took < Patience || took > Patience+2*pause {
			t.Errorf("what never holds: failed %v after %v", failed, took)
		}
	})
}

func TestPollEndsWithItsConditionOrItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for comes, want := range map[time.Duration]time.Duration{0: 0, 40 * time.Second: 40 * time.Second, time.Hour: 2 * time.Minute} {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			began := time.Now()
			held := Poll(ctx, func() bool { return time.Since(began) >= comes })
			if took := time.Since(began); took != want || held != (comes == want) {
				t.Errorf("what comes after %v: %v after %v", comes, held, took)
			}
			cancel()
		}
	})
}

// TestNeverFailsAsSoonAsItHappens includes the last moment. After that, Never looks
// no more.
func TestNeverFailsAsSoonAsItHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const long = 40 * time.Second
		for comes, want := range map[time.Duration]time.Duration{0: 0, time.Second: time.Second, long: long, long + time.Second: long} {
			w, began := &witness{}, time.Now()
			never := Never(w, long, "it happens", func() bool { return time.Since(began) >= comes })
			if took := time.Since(began); took != want || never == w.failed || never != (comes > long) {
				t.Errorf("what happens after %v: %v, failed %v after %v", comes, never, w.failed, took)
			}
		}
	})
}

func TestRealTimeLastsAsLongAsItIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		RealTime(40*time.Second, "the test looks at that")
		if took := time.Since(began); took != 40*time.Second {
			t.Errorf("it lasts %v", took)
		}
	})
}
