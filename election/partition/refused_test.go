package partition_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
)

// moody is a store that refuses all attempts for good, as it seems, while it is told to.
type moody struct {
	*electiontest.Store
	refuses  atomic.Bool
	refusals atomic.Int64
}

func (m *moody) Acquire(ctx context.Context, claim election.Claim) (election.Grant, error) {
	if m.refuses.Load() {
		m.refusals.Add(1)
		return election.Grant{}, election.Permanent(errors.New("404 from a proxy"))
	}
	return m.Store.Acquire(ctx, claim)
}

// TestMemberOutlivesARefusalOfAStoreThatHasServedIt, though it asks for partitions that
// it has never had.
func TestMemberOutlivesARefusalOfAStoreThatHasServedIt(t *testing.T) {
	g, store := newGroup(t, 4, nil), &moody{Store: electiontest.NewStore(nil)}
	b := g.join(store, "b")
	g.awaitEven("b")
	a := g.join(store, "a")
	g.awaitEven("a", "b")
	store.refuses.Store(true)
	b.end(t)
	for limit := time.After(patience); store.refusals.Load() < 4; {
		select {
		case err := <-a.ended:
			t.Fatalf("the other member has ended: %v", err)
		case <-limit:
			t.Fatalf("%d attempts were refused, of 4", store.refusals.Load())
		case <-time.After(time.Millisecond):
		}
	}
	store.refuses.Store(false)
	g.awaitEven("a")
}
