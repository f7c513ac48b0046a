package partition_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/partition"
	"github.com/conclave-project/conclave/election/record"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// moody is a store that refuses all attempts, apparently for good, while it is told to.
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

// Renew refuses as Acquire does.
func (m *moody) Renew(ctx context.Context, grant election.Grant) (election.Grant, error) {
	if m.refuses.Load() {
		return grant, election.Permanent(errors.New("404 from a proxy"))
	}
	return m.Store.Renew(ctx, grant)
}

// TestGroupOutlivesAStoreThatRefusesItForLongerThanALease: all members lose their seats and
// everything that they own, but none gives up.
func TestGroupOutlivesAStoreThatRefusesItForLongerThanALease(t *testing.T) {
	g, store := newGroup(t, 4, nil), &moody{Store: electiontest.NewStore(nil)}
	a, b := g.join(store, "a"), g.join(store, "b")
	g.awaitEven("a", "b")
	store.refuses.Store(true)
	g.await("nobody owns anything", func(owned map[string]int) bool { return owned[""] == 4 })
	for before := store.refusals.Load(); store.refusals.Load() < before+8; { // also of seats
		select {
		case err := <-a.ended:
			t.Fatalf("a has ended: %v", err)
		case err := <-b.ended:
			t.Fatalf("b has ended: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	store.refuses.Store(false)
	g.awaitEven("a", "b")
}

// TestMemberOutlivesARefusalOfAStoreThatHasServedIt, even if it asks for partitions that it
// has never had.
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

// damaged is a store in which one record cannot be read while it is told so.
type damaged struct {
	*record.Memory
	name string
	is   *atomic.Bool
}

func (d damaged) Read(ctx context.Context, name string) (record.Record, string, error) {
	if name == d.name && d.is.Load() {
		return record.Record{}, "", election.Permanent(errors.New("invalid character; delete it, or repair it"))
	}
	return d.Memory.Read(ctx, name)
}

func (d damaged) Write(ctx context.Context, name string, r record.Record, version string) (string, error) {
	if name == d.name && d.is.Load() {
		return "", record.ErrConflict // another version is there
	}
	return d.Memory.Write(ctx, name, r, version)
}

// TestOneElectionThatIsDamagedCostsNoOther (partition-P6): a partition or a seat is damaged,
// before a member starts or after.
func TestOneElectionThatIsDamagedCostsNoOther(t *testing.T) {
	for name, sound := range map[string]int{"group/partitions/1": 5, "group/seats/0": 6, "group/seats/1": 6, "group/seats/2": 6} {
		t.Run(name, func(t *testing.T) {
			var is atomic.Bool
			memory := record.NewMemory(nil)
			backend := record.New(damaged{memory, name, &is}, record.Options{})
			// seats returns who really has which seat.
			seats := func() (all []string) {
				for i := range 3 {
					r, _, err := memory.Read(t.Context(), fmt.Sprint("group/seats/", i))
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, r.Holder)
				}
				return all
			}
			views := make(chan partition.View, 1000)
			g := newGroup(t, 6, func(o *partition.Options) {
				o.MembersMax, o.Election.Lease = 3, time.Second
				o.OnView = func(v partition.View) { views <- v }
			})
			owns := func(members ...string) func(map[string]int) bool {
				return func(owned map[string]int) bool {
					sum := 0
					for _, m := range members {
						if owned[m] < sound/len(members) {
							return false
						}
						sum += owned[m]
					}
					return sum == sound || sum == 6 && !is.Load()
				}
			}
			a := g.join(backend, "a")
			b := g.join(backend, "b")
			g.await("all partitions, two members", owns("a", "b"))
			is.Store(true)
			if seat, err := strconv.Atoi(strings.TrimPrefix(name, "group/seats/")); err == nil && seats()[seat] != "" {
				holder := seats()[seat]
				awaittest.Until(t, holder+" has another seat", func() bool { return slices.Contains(slices.Delete(seats(), seat, seat+1), holder) })
			}
			g.await("all but the damaged one, two members", owns("a", "b"))
			for _, m := range []*member{a, b} {
				if len(m.ended) > 0 {
					t.Fatalf("%s has ended: %v", m.ID(), m.await(t))
				}
			}
			b.end(t)
			g.await("all but the damaged one", owns("a"))
			g.join(backend, "c")
			g.await("all but the damaged one, with one that starts", owns("a", "c"))
			for seen := false; !seen; {
				select {
				case v := <-views:
					seen = v.Err != nil
				case <-time.After(patience):
					t.Fatal("nobody is told that an election cannot be seen")
				}
			}
			is.Store(false)
			sound = 6
			g.awaitEven("a", "c")
		})
	}
}

// TestMemberThatEverySeatRefusesEnds, because it was never served.
func TestMemberThatEverySeatRefusesEnds(t *testing.T) {
	store := &moody{Store: electiontest.NewStore(nil)}
	store.refuses.Store(true)
	g := newGroup(t, 4, nil)
	if err := g.join(store, "a").await(t); !errors.Is(err, election.ErrPermanent) {
		t.Errorf("Run returned %v", err)
	}
}
