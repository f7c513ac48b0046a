package awaittest

import (
	"testing"
	"testing/synctest"
	"time"
)

// witness is a test that notes that it has failed.
type witness struct {
	testing.TB
	failed bool
}

func (w *witness) Helper() {}

func (w *witness) Fatalf(string, ...any) {
	w.failed = true
	panic(w) // as Fatalf, it does not return
}

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
