package partition_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/partition"
)

// TestLeaveEndsThoughTheOtherCannotWarmUp, as when a new version is rolled out that
// does not work: what nobody takes is released.
func TestLeaveEndsThoughTheOtherCannotWarmUp(t *testing.T) {
	var broken atomic.Bool
	var tries atomic.Int64
	g := newGroup(t, 2, func(o *partition.Options) {
		if broken.Load() {
			o.Warm = func(context.Context, int) error { tries.Add(1); return errors.New("no such table") }
		}
	})
	store := electiontest.NewStore(nil)
	old := g.join(store, "old")
	g.awaitEven("old")
	broken.Store(true)
	g.join(store, "new")
	for tries.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	old.Leave()
	select {
	case err := <-old.ended:
		old.ended <- err
	case <-time.After(20 * time.Second):
		t.Errorf("Leave has not ended; %d hand-overs have failed, and go on", tries.Load())
	}
}
