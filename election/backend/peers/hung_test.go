package peers_test

import (
	"context"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// TestFunctionThatHangsKeepsNobodyFromLeading (peers-P2), though its member lives on.
func TestFunctionThatHangsKeepsNobodyFromLeading(t *testing.T) {
	g := found(t, 3, nil)
	a, err := election.New(g[0], "x", election.Options{ID: "a", Lease: time.Second, Once: true})
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
	next := acquire(t, g[1], claim("x", "b", 0))
	if first.Err() == nil || next.Token <= first.Token() {
		t.Errorf("b leads with token %d, a with token %d: %v", next.Token, first.Token(), first.Err())
	}
	close(goOn)
	<-ended
}
