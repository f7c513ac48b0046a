package partition_test

import (
	"testing"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/partition"
)

// TestMemberWhoseLogIsBlockedStillOwns (partition-P2): its OnEvent or its OnView does not
// return any more, and it loses its partitions again and again.
func TestMemberWhoseLogIsBlockedStillOwns(t *testing.T) {
	for _, what := range []string{"OnEvent", "OnView"} {
		t.Run(what, func(t *testing.T) { stillOwns(t, what) })
	}
}

func stillOwns(t *testing.T, what string) {
	store := electiontest.NewStore(nil)
	full, blocked := make(chan struct{}), make(chan struct{})
	g := newGroup(t, 2, nil)
	g.change = func(o *partition.Options) {
		block := func() {
			select {
			case <-blocked:
				<-full
			default:
			}
		}
		switch {
		case o.Election.ID != "a":
		case what == "OnEvent":
			o.Election.OnEvent = func(election.Event) { block() }
		default:
			o.OnView = func(partition.View) { block() }
		}
	}
	g.join(store, "a")
	g.join(store, "b")
	t.Cleanup(func() { close(full) }) // before the members are stopped
	each := func(owned map[string]int) bool { return owned["a"] == 1 && owned["b"] == 1 }
	g.await("each has one", each)
	close(blocked)
	for range 3 {
		g.mu.Lock()
		moves, name := g.moves, "group/partitions/0"
		if g.owners[1] == "a" {
			name = "group/partitions/1"
		}
		g.mu.Unlock()
		if err := store.Ask(t.Context(), name, election.Request{}); err != nil {
			t.Fatal(err)
		}
		g.await("what was given up is owned again", func(owned map[string]int) bool {
			g.mu.Lock()
			defer g.mu.Unlock()
			return g.moves > moves && each(owned)
		})
	}
}
