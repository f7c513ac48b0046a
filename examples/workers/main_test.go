package main

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/conclavetest"
	"github.com/conclave-project/conclave/election/fence"
	"github.com/conclave-project/conclave/election/fence/znode"
	"github.com/conclave-project/conclave/examples/internal/printed"
)

// When one of two workers is stopped, the other gets all the tasks.
func TestTasksMoveToThoseThatAreLeft(t *testing.T) {
	e := conclavetest.Start(t)
	worker := func(ctx context.Context, out io.Writer) error { return run(ctx, e.Servers(), out) }
	first, stop := printed.Lines(t, worker)
	printed.Await(t, first, "works on 0 1 2 3 4 5 6 7 8 9 10 11")
	second, _ := printed.Lines(t, worker)
	printed.Await(t, second, "works on 1 3 5 7 9 11")
	printed.Await(t, first, "works on 0 2 4 6 8 10")
	stop()
	last := printed.Await(t, second, "works on 0 1 2 3 4 5 6 7 8 9 10 11")
	name, _, _ := strings.Cut(last, " ")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		names, _, watch, err := e.Client(t).ChildrenW(ctx, given)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Equal(names, []string{name}) {
			return
		}
		select {
		case <-watch.Events():
		case <-ctx.Done():
			t.Fatalf("%q have tasks", names)
		}
	}
}

// A leader whose successor has claimed the fence can give out no more tasks.
func TestLeaderThatWasReplacedGivesNothing(t *testing.T) {
	e := conclavetest.Start(t, conclavetest.Servers(1))
	zombie := make(chan error, 1)
	first, _ := printed.Lines(t, func(ctx context.Context, out io.Writer) error {
		zombie <- run(ctx, e.Servers(), out)
		return nil
	})
	printed.Await(t, first, "works on 0 1 2 3 4 5 6 7 8 9 10 11") // so it has claimed the fence
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := znode.Claim(ctx, e.Client(t), guard, math.MaxInt64, nil); err != nil {
		t.Fatal(err)
	}
	second, _ := printed.Lines(t, func(ctx context.Context, out io.Writer) error {
		_ = run(ctx, e.Servers(), out) // it is refused too, once it leads
		return nil
	})
	printed.Await(t, second, "here as")
	select {
	case err := <-zombie:
		if !errors.Is(err, fence.ErrStale) {
			t.Errorf("the leader ended with %v", err)
		}
	case <-ctx.Done():
		t.Error("the leader goes on")
	}
}
