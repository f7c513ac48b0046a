package peers_test

import (
	"context"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/peers"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// A grant that is not renewed also ends where two may lead (peers-P2): the member whose function
// hangs is the one that the algorithm prefers, and it lives on.
func TestFunctionThatHangsKeepsNoOtherAlgorithm(t *testing.T) {
	t.Parallel()
	for name, preferred := range map[string]int{"bully": 2, "ring": 2, "lowest": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := found(t, 3, func(o *peers.Options) { o.Algorithm, o.Dir = name, "" })
			for _, b := range g {
				await(t, b, "x", whole)
			}
			a, err := election.New(g[preferred], "x", election.Options{ID: "a", Lease: time.Second, Once: true, MayOverlap: true})
			if err != nil {
				t.Fatal(err)
			}
			led, goOn, ended := make(chan election.Leadership), make(chan struct{}), make(chan struct{})
			go func() {
				defer close(ended)
				_ = a.Run(awaittest.Within(t), func(_ context.Context, lead election.Leadership) error {
					led <- lead
					<-goOn
					return nil
				})
			}()
			first := <-led
			first.Resign()
			acquire(t, g[1], claim("x", "b", 0))
			if first.Err() == nil {
				t.Error("the leader whose function hangs leads on")
			}
			close(goOn)
			<-ended
		})
	}
}
