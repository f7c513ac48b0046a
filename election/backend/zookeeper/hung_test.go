package zookeeper_test

import (
	"context"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// TestFunctionThatHangsKeepsNobodyFromLeading (queue-Q10): the session of its process lives
// on, and has other elections.
func TestFunctionThatHangsKeepsNobodyFromLeading(t *testing.T) {
	addr := startServer(t)
	a, err := election.New(open(t, addr), "e", election.Options{ID: "a", Lease: time.Second, Once: true})
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
	next, err := open(t, addr).Acquire(awaittest.Within(t), claim("b", time.Second))
	if err != nil {
		t.Error(err)
	}
	if first.Err() == nil || next.Token <= first.Token() {
		t.Errorf("b leads with token %d, a with token %d: %v", next.Token, first.Token(), first.Err())
	}
	close(goOn)
	<-ended
}
