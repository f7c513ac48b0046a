package zookeeper_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// TestCloseEndsWarmUps: the context of a program's warm-up ends with its
// backend, which does not wait for the warm-up (queue-Q9).
func TestCloseEndsWarmUps(t *testing.T) {
	addr := startServerFor(t, time.Minute)
	a, b := open(t, addr), open(t, addr)
	first, err := a.Acquire(awaittest.Within(t), claim("a", 20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	warming, ended := make(chan struct{}), make(chan struct{})
	next := claim("b", 20*time.Second)
	next.Warm = func(ctx context.Context) error {
		close(warming)
		<-ctx.Done()
		close(ended)
		return nil
	}
	go func() { _, _ = b.Acquire(awaittest.Within(t), next) }()
	awaitQueue(t, operator(t, addr), 2)
	ctx, cancel := context.WithCancel(awaittest.Within(t))
	defer cancel()
	go func() { _ = a.(election.Nominator).Nominate(ctx, first, "b") }()
	<-warming
	if err := b.(io.Closer).Close(); err != nil {
		t.Error(err)
	}
	<-ended
}
