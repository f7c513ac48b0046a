package incarnation

import (
	"errors"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
)

func TestIncarnationIsWatchedForTheLongestLease(t *testing.T) {
	now := clock.Instant(0)
	w := NewWatch(10 * time.Second)
	w.now = func() clock.Instant { return now }
	steps := []struct {
		later       time.Duration
		incarnation string
		left        time.Duration
	}{
		{0, "a", 10 * time.Second},
		{9 * time.Second, "a", time.Second},
		{time.Second, "a", 0},
		{time.Hour, "a", 0},
		{0, "b", 10 * time.Second},
		{9 * time.Second, "a", 10 * time.Second}, // each switch back and forth starts again
		{time.Second, "b", 10 * time.Second},
		{10 * time.Second, "b", 0},
	}
	for i, step := range steps {
		now = now.Add(step.later)
		if got := w.See(step.incarnation); got != step.left {
			t.Errorf("step %d: %v left, expected %v", i, got, step.left)
		}
	}
}

func TestLeaseThatIsTooLongIsRefusedForGood(t *testing.T) {
	w := NewWatch(0)
	if err := w.check(record.Record{Nonce: "n", LeaseMs: LeaseMaxDefault.Milliseconds()}); err != nil {
		t.Error(err)
	}
	if err := w.check(record.Record{LeaseMs: 1 << 40}); err != nil {
		t.Errorf("a vacant record: %v", err)
	}
	err := w.check(record.Record{Nonce: "n", LeaseMs: LeaseMaxDefault.Milliseconds() + 1})
	if !errors.Is(err, election.ErrPermanent) {
		t.Errorf("error %v", err)
	}
}
