package partition_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/partition"
	"github.com/conclave-project/conclave/internal/bubble"
)

// TestFunctionThatWasToldToEndEndsNoMember, whatever error it then returns, such as the
// error of a cancelled query: it did not return the error on its own.
func TestFunctionThatWasToldToEndEndsNoMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := bubble.Clock(1)
		store := electiontest.NewStore(c)
		ended := make(map[string]chan error)
		members := make(map[string]*partition.Member)
		ctx, cancel := context.WithCancel(context.Background())
		for _, id := range []string{"a", "b"} {
			m, err := partition.New(store, "group", partition.Options{Partitions: 4, MembersMax: 2,
				Election: election.Options{ID: id, Clock: c}})
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			members[id], ended[id] = m, done
			go func() {
				done <- m.Run(ctx, func(ctx context.Context, _ int, _ election.Leadership) error {
					<-ctx.Done()
					return errors.New("the query was interrupted")
				})
			}()
			time.Sleep(time.Minute)
		}
		for id, m := range members {
			if owned := count(m.View().Owners); owned["a"] != 2 || owned["b"] != 2 {
				t.Errorf("%s sees the owners %v", id, m.View().Owners)
			}
		}
		cancel()
		for id, ended := range ended {
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("Run of %s returned %v", id, err)
			}
		}
	})
}

func count(owners []string) map[string]int {
	owned := make(map[string]int)
	for _, owner := range owners {
		owned[owner]++
	}
	return owned
}
