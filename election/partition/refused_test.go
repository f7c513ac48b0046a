package partition_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/partition"
	"github.com/conclave-project/conclave/election/record"
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

// damaged is a store in which a record cannot be read while it is told so.
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
		return "", record.ErrConflict // another version stands there
	}
	return d.Memory.Write(ctx, name, r, version)
}

// TestOneElectionThatIsDamagedCostsNoOther (partition-P6): a partition or a seat, before
// a member starts or after.
func TestOneElectionThatIsDamagedCostsNoOther(t *testing.T) {
	for name, sound := range map[string]int{"group/partitions/1": 5, "group/seats/0": 6} {
		t.Run(name, func(t *testing.T) {
			var is atomic.Bool
			backend := record.New(damaged{record.NewMemory(nil), name, &is}, record.Options{})
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
			g.join(backend, "a")
			b := g.join(backend, "b")
			g.await("all partitions, two members", owns("a", "b"))
			is.Store(true)
			g.await("all but the damaged one, two members", owns("a", "b"))
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

// TestMemberThatEverySeatRefusesEnds: it was never served.
func TestMemberThatEverySeatRefusesEnds(t *testing.T) {
	store := &moody{Store: electiontest.NewStore(nil)}
	store.refuses.Store(true)
	g := newGroup(t, 4, nil)
	if err := g.join(store, "a").await(t); !errors.Is(err, election.ErrPermanent) {
		t.Errorf("Run returned %v", err)
	}
}
