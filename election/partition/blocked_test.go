package partition_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/partition"
	"github.com/conclave-project/conclave/internal/bubble"
)

// TestMemberWhoseLogIsBlockedStillOwns (partition-P2): its OnEvent or its OnView no
// longer returns, and it loses its partitions again and again.
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

// TestSlowOnEventIsToldTheEndOfEachLeadership: metrics and spans last as long as the leaderships
// that OnEvent is told of. While it does not return, partitions are lost, and the renewals of the
// others are more events than may wait.
func TestSlowOnEventIsToldTheEndOfEachLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type leadership struct {
			election string
			token    election.Token
		}
		const partitions = 40
		full, lost := make(chan struct{}), make(chan struct{})
		lasting, elected, missed := map[leadership]bool{}, 0, 0
		onEvent := func(e election.Event) {
			if elected > partitions { // all partitions and the seat
				<-full
			}
			missed += e.Missed
			one := leadership{e.Election, e.Token}
			switch e.Kind {
			case election.EventElected:
				elected++
				lasting[one] = true
			case election.EventLost:
				if !lasting[one] {
					t.Errorf("a leadership is lost whose beginning was not told: %+v", e)
				}
				delete(lasting, one)
			}
		}
		c := bubble.Clock(1)
		member, err := partition.New(electiontest.NewStore(c), "group",
			partition.Options{Partitions: partitions, MembersMax: 1, Election: election.Options{Clock: c, OnEvent: onEvent}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = member.Run(ctx, func(ctx context.Context, p int, _ election.Leadership) error {
				select {
				case <-lost:
					<-ctx.Done()
				case <-ctx.Done():
				case <-time.After(time.Duration(p+1) * time.Minute): // releases the partition, and takes it again
				}
				return nil
			})
		}()
		time.Sleep(time.Hour)
		close(lost)
		close(full)
		synctest.Wait()
		stop()
		<-ended
		synctest.Wait()
		if missed == 0 || len(lasting) > 0 {
			t.Errorf("%d events are missed, and the ends of leaderships are not told: %v", missed, lasting)
		}
	})
}
