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

// hang has two members, a with the partitions 0 and 1, and b with 2 and 3. The functions
// named "a0" and so on ignore their contexts once, and an operator makes the leaders of their
// partitions resign. It returns what each member owns long after that, what each owns after
// the functions have ended, and how often a seat was taken.
func hang(t *testing.T, functions ...string) (meanwhile, later map[string]int, taken election.Token) {
	synctest.Test(t, func(t *testing.T) {
		c := bubble.Clock(1)
		store := electiontest.NewStore(c)
		ctx, cancel := context.WithCancel(context.Background())
		goOn, ended := make(chan struct{}), make(chan struct{})
		var last *partition.Member
		for _, id := range []string{"a", "b"} {
			m, err := partition.New(store, "group", partition.Options{Partitions: 4, MembersMax: 2,
				Election: election.Options{ID: id, Clock: c, Lease: stuckLease}})
			if err != nil {
				t.Fatal(err)
			}
			last = m
			go func() {
				_ = m.Run(ctx, func(ctx context.Context, p int, _ election.Leadership) error {
					<-ctx.Done()
					for _, one := range functions {
						if one == id+string(rune('0'+p)) && context.Cause(ctx) == election.ErrResigned {
							<-goOn
						}
					}
					return nil
				})
				ended <- struct{}{}
			}()
			time.Sleep(time.Minute)
		}
		for _, one := range functions {
			if err := store.Ask(ctx, "group/partitions/"+one[1:], election.Request{}); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(time.Minute)
		meanwhile = count(last.View().Owners)
		close(goOn)
		time.Sleep(time.Minute)
		later = count(last.View().Owners)
		for _, seat := range []string{"0", "1"} {
			for view := range store.Observe(ctx, "group/seats/"+seat) {
				taken += view.Token
				break
			}
		}
		cancel()
		<-ended
		<-ended
	})
	return meanwhile, later, taken
}

// TestPartitionWhoseFunctionHangsGoesToAnother (partition-P7), and so does everything else
// that its member owns, which is a member again when the function has ended.
func TestPartitionWhoseFunctionHangsGoesToAnother(t *testing.T) {
	meanwhile, later, _ := hang(t, "a0")
	if meanwhile["b"] != 4 {
		t.Errorf("while a function of a hangs there are owned %v", meanwhile)
	}
	if later["a"] != 2 || later["b"] != 2 {
		t.Errorf("when it has ended there are owned %v", later)
	}
}

// TestMembersWhoseFunctionsAllHangTakeTheirSeatsOnce, or a few times: one member stays.
func TestMembersWhoseFunctionsAllHangTakeTheirSeatsOnce(t *testing.T) {
	for range 10 {
		meanwhile, later, taken := hang(t, "a0", "b2")
		if owned := meanwhile["a"] + meanwhile["b"]; owned != 3 {
			t.Errorf("while functions of both hang there are owned %v", meanwhile)
		}
		if later["a"] != 2 || later["b"] != 2 || taken > 10 {
			t.Errorf("when they have ended there are owned %v, seats were taken %d times", later, taken)
		}
	}
}
