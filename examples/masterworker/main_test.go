package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/conclavetest"
	"github.com/conclave-project/conclave/election/fence"
	"github.com/conclave-project/conclave/election/fence/znode"
	"github.com/conclave-project/conclave/examples/internal/printed"
	"github.com/conclave-project/conclave/zk"
)

// A task gets done even if its worker, its master and the servers' leader die.
func TestTaskIsDoneIfAnyDies(t *testing.T) {
	e := conclavetest.Start(t)
	play := func(takes time.Duration, args ...string) func(context.Context, io.Writer) error {
		return func(ctx context.Context, out io.Writer) error { return run(ctx, e.Servers(), args, takes, out) }
	}
	first, stopFirst := printed.Lines(t, play(0, "master"))
	printed.Await(t, first, "master with token")
	slow, stopSlow := printed.Lines(t, play(time.Hour, "worker"))
	customer, _ := printed.Lines(t, play(0, "client", "wash the dishes"))
	printed.Await(t, first, "task-0000000000 is given to")
	printed.Await(t, slow, "begins task-0000000000: wash the dishes")

	second, _ := printed.Lines(t, play(0, "master"))
	printed.Await(t, second, "waiting")
	stopFirst()
	printed.Await(t, second, "master with token")

	quick, _ := printed.Lines(t, play(0, "worker"))
	here := printed.Await(t, quick, "here as ")
	e.Kill(e.Leader())
	e.Leader()
	stopSlow()
	printed.Await(t, second, "task-0000000000 is taken back")
	printed.Await(t, second, "task-0000000000 is given to")
	name := strings.TrimPrefix(here, "here as ")
	printed.Await(t, customer, "task-0000000000: wash the dishes, done by "+name)
}

// A master whose successor has claimed the fence can give out no more tasks.
func TestMasterThatWasReplacedGivesNothing(t *testing.T) {
	e := conclavetest.Start(t, conclavetest.Servers(1))
	zombie := make(chan error, 1)
	lines, _ := printed.Lines(t, func(ctx context.Context, out io.Writer) error {
		zombie <- run(ctx, e.Servers(), []string{"master"}, 0, out)
		return nil
	})
	printed.Await(t, lines, "master with token")
	worker, _ := printed.Lines(t, func(ctx context.Context, out io.Writer) error {
		return run(ctx, e.Servers(), []string{"worker"}, 0, out)
	})
	printed.Await(t, worker, "here as")
	// The first task shows that the master has claimed the fence.
	submit := func(text string) {
		lines, _ := printed.Lines(t, func(ctx context.Context, out io.Writer) error {
			return run(ctx, e.Servers(), []string{"client", text}, 0, out)
		})
		printed.Await(t, lines, "submitted")
	}
	submit("before")
	printed.Await(t, worker, "before")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := znode.Claim(ctx, e.Client(t), guard, math.MaxInt64, nil); err != nil {
		t.Fatal(err)
	}
	submit("after")
	select {
	case err := <-zombie:
		if !errors.Is(err, fence.ErrStale) {
			t.Errorf("the master ended with %v", err)
		}
	case <-ctx.Done():
		t.Error("the master goes on")
	}
}

// When a server ends, its clients must not end too, because then they would
// read no more results.
func TestLostAnswerEndsNoClient(t *testing.T) {
	lost := fmt.Errorf("delete: %w", zk.ErrConnectionLoss)
	for _, last := range []error{nil, zk.ErrNoNode} {
		answers := []error{lost, lost, last}
		err := again(t.Context(), func() error {
			answer := answers[0]
			answers = answers[1:]
			return answer
		})
		if len(answers) > 0 || !errors.Is(err, last) {
			t.Errorf("%v, and %d answers are left", err, len(answers))
		}
	}
}

func TestRolesAreNamed(t *testing.T) {
	for _, args := range [][]string{nil, {"mistress"}} {
		if err := run(t.Context(), "", args, 0, io.Discard); err == nil {
			t.Errorf("%q was played", args)
		}
	}
}
