package partition_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/partition"
	"github.com/conclave-project/conclave/internal/bubble"
)

// TestPartitionThatAMemberCannotWarmUpHoldsNoOtherUp (partition-P5), neither those of its
// owner nor those of others. Of eight partitions, a has 0 to 3 and b the others when c
// arrives, which is to have 3 and 7.
func TestPartitionThatAMemberCannotWarmUpHoldsNoOtherUp(t *testing.T) {
	for _, broken := range []int{3, 7} {
		synctest.Test(t, func(t *testing.T) {
			c, works := bubble.Clock(1), false
			var g *group
			g = newGroup(t, 8, func(o *partition.Options) {
				o.Election.Clock, o.Election.WarmLimit = c, 10*time.Second
				if o.Election.ID == "c" {
					o.Warm = func(_ context.Context, p int) error {
						g.mu.Lock()
						defer g.mu.Unlock()
						if p == broken && !works {
							return errors.New("its file is damaged")
						}
						return nil
					}
				}
			})
			store := electiontest.NewStore(c)
			g.join(store, "a")
			g.awaitEven("a")
			g.join(store, "b")
			g.awaitEven("a", "b")
			g.join(store, "c")
			time.Sleep(3 * time.Minute)
			g.await("all but that", func(owned map[string]int) bool {
				return owned["c"] == 1 && owned["a"]+owned["b"] == 7
			})
			g.mu.Lock()
			works = true
			g.mu.Unlock()
			time.Sleep(3 * time.Minute)
			g.awaitEven("a", "b", "c")
		})
	}
}
