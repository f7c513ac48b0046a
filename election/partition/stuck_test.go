package partition_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/partition"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/bubble"
)

// denying is a store in which everything can be seen, but not everybody may take every election.
type denying struct {
	*electiontest.Store
	mu   sync.Mutex
	deny func(claim election.Claim) bool
}

func (d *denying) set(deny func(claim election.Claim) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.deny = deny
}

func (d *denying) Acquire(ctx context.Context, claim election.Claim) (election.Grant, error) {
	d.mu.Lock()
	denied := d.deny(claim)
	d.mu.Unlock()
	if denied {
		return election.Grant{}, election.Permanent(errors.New("no permission to write this one"))
	}
	return d.Store.Acquire(ctx, claim)
}

const stuckLease = 2 * time.Second

// inBubble runs a test with a group in a bubble of time.
func inBubble(t *testing.T, partitions int, deny func(claim election.Claim) bool, test func(t *testing.T, g *group, store *denying)) {
	synctest.Test(t, func(t *testing.T) {
		c := bubble.Clock(1)
		g := newGroup(t, partitions, func(o *partition.Options) { o.Election.Clock, o.Election.Lease = c, stuckLease })
		test(t, g, &denying{Store: electiontest.NewStore(c), deny: deny})
	})
}

func first(claim election.Claim) bool { return claim.Election == "group/partitions/1" }

// TestPartitionThatNobodyCanTakeHoldsNoHandOverUp (partition-P6), on a backend that hands
// over and on one that can only resign: new members get their shares, and Leave ends.
func TestPartitionThatNobodyCanTakeHoldsNoHandOverUp(t *testing.T) {
	for what, through := range map[string]func(*denying) election.Backend{
		"hands over": func(d *denying) election.Backend { return d },
		"resigns":    func(d *denying) election.Backend { return plain{d} },
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, 6, first, func(t *testing.T, g *group, store *denying) {
				a := g.join(through(store), "a")
				g.await("all but the one that is refused", func(owned map[string]int) bool { return owned["a"] == 5 })
				g.join(through(store), "b")
				g.await("shares of two", func(owned map[string]int) bool { return owned["a"] == 3 && owned["b"] == 2 })
				g.join(through(store), "c")
				g.await("shares of three", func(owned map[string]int) bool {
					return owned["a"] == 2 && owned["b"]+owned["c"] == 3 && min(owned["b"], owned["c"]) == 1
				})
				a.Leave()
				if err := a.await(t); err != nil {
					t.Errorf("Run returned %v", err)
				}
				g.await("shares of those that stay", func(owned map[string]int) bool {
					return owned["b"]+owned["c"] == 5 && min(owned["b"], owned["c"]) == 2
				})
				store.set(func(election.Claim) bool { return false })
				g.awaitEven("b", "c")
			})
		})
	}
}

// TestOwnerThatHasDiedHoldsMovesUpForTwoLeases (partition-P5) while nobody can take what it had.
func TestOwnerThatHasDiedHoldsMovesUpForTwoLeases(t *testing.T) {
	nobody := func(election.Claim) bool { return false }
	inBubble(t, 9, nobody, func(t *testing.T, g *group, store *denying) {
		a := g.join(store, "a")
		g.awaitEven("a")
		link := electiontest.NewFaulty(store)
		b := g.join(link, "b")
		g.awaitEven("a", "b")
		owns := func(id string) int {
			return len(slices.DeleteFunc(slices.Clone(a.View().Owners), func(owner string) bool { return owner != id }))
		}
		awaittest.Until(t, "the other sees it", func() bool { return owns("a")+owns("b") == 9 && owns("b") == 4 })
		var lost []string
		for p, owner := range a.View().Owners {
			if owner == "b" {
				lost = append(lost, "group/partitions/"+strconv.Itoa(p))
			}
		}
		store.set(func(claim election.Claim) bool { return slices.Contains(lost, claim.Election) })
		link.Cut()
		b.stop()
		awaittest.Until(t, "its leases have run out", func() bool { return owns("b") == 0 })
		began := time.Now()
		g.join(store, "c")
		g.join(store, "d")
		g.await("the first move", func(owned map[string]int) bool { return owned["c"]+owned["d"] > 0 })
		if took := time.Since(began); took < 2*stuckLease-50*time.Millisecond || took > 2*stuckLease+time.Second {
			t.Errorf("the first move came %v after %d of 9 had lost their owner", took, len(lost))
		}
		store.set(nobody)
		g.awaitEven("a", "c", "d")
	})
}

// TestMemberThatCanTakeNothingCostsMaxMoves partitions (partition-P5) for as long as it is
// there; a member that leaves gives up all its partitions nevertheless.
func TestMemberThatCanTakeNothingCostsMaxMoves(t *testing.T) {
	for what, through := range map[string]func(*denying) election.Backend{
		"hands over": func(d *denying) election.Backend { return d },
		"resigns":    func(d *denying) election.Backend { return plain{d} },
	} {
		t.Run(what, func(t *testing.T) {
			useless := func(claim election.Claim) bool {
				return claim.ID == "useless" && strings.HasPrefix(claim.Election, "group/partitions/")
			}
			inBubble(t, 6, useless, func(t *testing.T, g *group, store *denying) {
				a := g.join(through(store), "a")
				g.awaitEven("a")
				_, gap := g.during(func() {
					g.join(through(store), "useless")
					time.Sleep(20 * stuckLease)
				})
				g.await("all but one", func(owned map[string]int) bool { return owned["a"] == 5 })
				if gap != 1 {
					t.Errorf("%d partitions have lost their owner", gap)
				}
				began := time.Now()
				a.Leave()
				if err := a.await(t); err != nil {
					t.Errorf("Run returned %v", err)
				}
				if took := time.Since(began); took > 6*3*stuckLease {
					t.Errorf("it left after %v", took)
				}
			})
		})
	}
}
