package peers_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
)

// A holder gives up a hand-over and tries again while the candidate warms up: there is
// only one warm-up, and it serves both. When the candidate withdraws, the context of
// the warm-up ends.
func TestClaimWarmsUpOnceAtATimeAndNotAfterItsEnd(t *testing.T) {
	g := found(t, 3, patient)
	held := acquire(t, g[0], claim("x", "a", 0))
	var running, most atomic.Int32
	var last atomic.Bool
	began, goOn, ended := make(chan struct{}, 9), make(chan struct{}), make(chan struct{})
	waits, notReady := make(chan struct{}), errors.New("not ready")
	next := claim("x", "b", 0)
	next.Warm = func(ctx context.Context) error {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		if last.Load() {
			close(waits)
			<-ctx.Done()
			close(ended)
			return ctx.Err()
		}
		began <- struct{}{}
		<-goOn
		return notReady
	}
	ctx, withdraw := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = g[1].Acquire(ctx, next)
	}()
	await(t, g[0], "x", func(v election.View, err error) bool { return err == nil && v.Waits("b") })
	first, cancel := context.WithCancel(t.Context())
	answers := make(chan error, 2)
	go func() { answers <- g[0].Nominate(first, held, "b") }()
	<-began
	cancel()
	if err := <-answers; err == nil {
		t.Error("nominated one that is not ready")
	}
	go func() { answers <- g[0].Nominate(t.Context(), held, "b") }()
	// A third member learns of a change that a reports after its nomination; b has the
	// nomination by then, or will have it before the warm-up ends.
	third := claim("x", "c", 0)
	go func() { _, _ = g[0].Acquire(ctx, third) }()
	await(t, g[1], "x", func(v election.View, _ error) bool { return v.Waits("c") })
	close(goOn)
	if err := <-answers; err == nil {
		t.Error("nominated one whose warm-up has failed")
	}
	if n := most.Load(); n != 1 {
		t.Errorf("%d warm-ups ran at once", n)
	}
	last.Store(true)
	go func() { answers <- g[0].Nominate(t.Context(), held, "b") }()
	<-waits // it tries again
	withdraw()
	<-over
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("a warm-up goes on after its claim")
	}
	if err := <-answers; err == nil {
		t.Error("nominated one that has withdrawn")
	}
}

// TestCandidateThatHasLeftIsNeverReady, although its warm-up, which ignores its
// context, succeeds after that. Two candidates share one member.
func TestCandidateThatHasLeftIsNeverReady(t *testing.T) {
	b := found(t, 1, patient)[0]
	held := acquire(t, b, claim("x", "a", 0))
	began, goOn := make(chan struct{}), make(chan struct{})
	next := claim("x", "b", 0)
	next.Warm = func(context.Context) error {
		close(began)
		<-goOn
		return nil
	}
	ctx, withdraw := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = b.Acquire(ctx, next)
	}()
	await(t, b, "x", func(v election.View, _ error) bool { return v.Waits("b") })
	answer := make(chan error, 1)
	go func() { answer <- b.Nominate(t.Context(), held, "b") }()
	<-began
	withdraw()
	<-over
	await(t, b, "x", func(v election.View, _ error) bool { return !v.Waits("b") })
	close(goOn)
	if err := <-answer; err == nil {
		t.Error("nominated one that has withdrawn")
	}
}
