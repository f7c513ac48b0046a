package storetest

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/holders"
)

// holdersMax is how many may act at the same time in the tests of holders.
const holdersMax = 3

// held is the time during which a candidate considered itself entitled to act.
type held struct {
	who      string
	writes   bool
	from, to clock.Instant
}

// holding is the list of all candidates' times.
type holding struct {
	mu   sync.Mutex
	list []held
}

// tooMany describes each fault found: more than holdersMax at the same time, or anybody
// beside a writer.
func tooMany(list []held) []string {
	slices.SortFunc(list, func(a, b held) int { return cmp.Compare(a.from, b.from) })
	var wrong []string
	var acting []held
	for _, next := range list {
		acting = slices.DeleteFunc(acting, func(one held) bool { return one.to <= next.from })
		alone := next.writes || slices.ContainsFunc(acting, func(one held) bool { return one.writes })
		if len(acting) >= holdersMax || alone && len(acting) > 0 {
			wrong = append(wrong, fmt.Sprintf("%s (writes: %v) acts beside %v", next.who, next.writes, acting))
		}
		acting = append(acting, next)
	}
	return wrong
}

// Holders lets candidates hold places, and read and write under a lock, while the store
// suffers the Faults of x. It looks for more candidates acting at the same time than are
// allowed. A candidate lives for a few leases; if its link is cut when it ends, it releases
// nothing, as if it were killed.
func (x Torture) Holders(t *testing.T) {
	x.draw(t)
	var places, lock holding
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for i := range x.Candidates {
		group.Go(func() { x.hold(ctx, t, i, &places, &lock) })
	}
	x.suffer(t, &spans{})
	stop()
	group.Wait()
	for name, all := range map[string]*holding{"places": &places, "lock": &lock} {
		for _, wrong := range tooMany(all.list) {
			t.Errorf("%s: %s", name, wrong)
		}
		t.Logf("%s: %d acted", name, len(all.list))
		if len(all.list) < x.LeadersMin {
			t.Errorf("%s: %d show nothing", name, len(all.list))
		}
	}
}

// hold runs one candidate after the other. Those with an even number want a place, the
// others the lock; every fourth wants to write.
func (x Torture) hold(ctx context.Context, t *testing.T, i int, places, lock *holding) {
	x.lives(ctx, t, i, 6, func(living context.Context, random *rand.Rand, backend election.Backend, options election.Options) {
		one := held{who: options.ID, writes: i%4 == 1}
		if i%2 == 0 {
			candidate, err := holders.New(backend, "places", holdersMax, options)
			if err != nil {
				t.Error(err)
				return
			}
			_ = candidate.Hold(living, func(_ context.Context, place holders.Place) error { // returns when its life ends
				places.act(one, place.Err, x.Lease, random)
				return nil
			})
			return
		}
		rw, err := holders.NewRWLock(backend, "lock", holdersMax, options)
		if err != nil {
			t.Error(err)
			return
		}
		enter := rw.Read
		if one.writes {
			enter = rw.Write
		}
		_ = enter(living, func(_ context.Context, h holders.Held) error {
			lock.act(one, h.Err, x.Lease, random)
			return nil
		})
	})
}

// act checks for a while, as often as it can, that it may still act.
func (h *holding) act(one held, err func() error, lease time.Duration, random *rand.Rand) {
	one.from = clock.Now()
	until := one.from.Add(time.Duration(random.Int64N(int64(2 * lease))))
	for now := one.from; err() == nil && now < until; now = clock.Now() {
		one.to = now
		time.Sleep(time.Millisecond)
	}
	if one.to > one.from {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.list = append(h.list, one)
	}
}
