package zookeeper_test

import (
	"context"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
)

// TestCloseWaitsForWarmUps: what a program does to get ready must not go
// on after the end of its backend.
func TestCloseWaitsForWarmUps(t *testing.T) {
	addr := startServer(t)
	a, b := open(t, addr), open(t, addr)
	first, err := a.Acquire(within(t), claim("a", 20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	var ended atomic.Bool
	warming := make(chan struct{})
	next := claim("b", 20*time.Second)
	next.Warm = func(ctx context.Context) error {
		close(warming)
		<-ctx.Done()
		time.Sleep(20 * time.Millisecond) // for a Close that does not wait to come first
		ended.Store(true)
		return nil
	}
	go func() { _, _ = b.Acquire(within(t), next) }()
	awaitQueue(t, operator(t, addr), 2)
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	go func() { _ = a.(election.Nominator).Nominate(ctx, first, "b") }()
	<-warming
	if err := b.(io.Closer).Close(); err != nil {
		t.Error(err)
	}
	if !ended.Load() {
		t.Error("Close has returned, and a candidate is warming up")
	}
}
