package partition_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/partition"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/bubble"
)

// TestLeaveEndsThoughTheOtherCannotWarmUp, as during the rollout of a new version that
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
	awaittest.Until(t, "the other has tried to warm up", func() bool { return tries.Load() > 0 })
	old.Leave()
	select {
	case err := <-old.ended:
		old.ended <- err
	case <-time.After(20 * time.Second):
		t.Errorf("Leave has not ended; %d hand-overs have failed, and go on", tries.Load())
	}
}

// TestMemberThatLeavesIsCheckedForHealth: it no longer has a seat, and leads what nobody
// has taken yet.
func TestMemberThatLeavesIsCheckedForHealth(t *testing.T) { synctest.Test(t, whoLeavesIsChecked) }

func whoLeavesIsChecked(t *testing.T) {
	c := bubble.Clock(1)
	var slow, sick atomic.Bool
	warming := make(chan struct{}, 100)
	g := newGroup(t, 4, func(o *partition.Options) {
		o.Election.Clock = c
		if slow.Load() {
			o.Warm = func(ctx context.Context, _ int) error {
				warming <- struct{}{}
				<-ctx.Done()
				return ctx.Err()
			}
			return
		}
		o.Election.HealthEvery, o.Election.HealthFailures = 20*time.Millisecond, 2
		o.Election.Health = func(context.Context) error {
			if sick.Load() {
				return errors.New("the disk is gone")
			}
			return nil
		}
	})
	store := electiontest.NewStore(c)
	old := g.join(store, "old")
	g.awaitEven("old")
	slow.Store(true)
	g.join(store, "new")
	<-warming
	old.Leave()
	awaittest.Until(t, "it has given its seat up", func() bool { return len(old.View().Members) == 1 })
	sick.Store(true)
	began := time.Now()
	_ = old.await(t)
	if took, lease := time.Since(began), 2*time.Second; took > lease {
		t.Errorf("it led on for %v after its health check had begun to fail", took)
	}
}
