package server

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/replicadisk"
	"github.com/conclave-project/conclave/internal/vfs"
)

// A snapshot pauses after each portion for as long as the portion has taken, within a bound.
func TestPortionsAndPausesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, end := 0, errors.New("enough")
		next := takingTurns(func() error {
			if asked++; asked == 3 {
				return end
			}
			return nil
		})
		for _, portion := range []struct{ took, pause time.Duration }{
			{3 * time.Millisecond, 3 * time.Millisecond}, {0, 0}, {time.Hour, pauseMax},
		} {
			time.Sleep(portion.took)
			began := time.Now()
			err := next()
			if paused := time.Since(began); paused != portion.pause || (err == end) != (asked == 3) {
				t.Errorf("%v after a portion of %v, not %v; %v", paused, portion.took, portion.pause, err)
			}
		}
	})
}

// An election while a snapshot is being written is no failure, of which operators are alerted:
// the next role takes another one.
func TestSnapshotOfARoleThatHasEndedHasNotFailed(t *testing.T) {
	s := start(t, vfs.NewMem(), nil)
	var b *replicadisk.Snapshot
	s.inspect(func(*replica.Replica) { b = s.beginSnapshot() })
	b.GiveUp()
	s.takeSnapshot(b)
	if n := s.Status().SnapshotsFailed; n != 0 {
		t.Errorf("%d snapshots have failed", n)
	}
}
