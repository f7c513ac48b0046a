package main

import (
	"context"
	"io"
	"testing"

	"github.com/conclave-project/conclave/conclavetest"
	"github.com/conclave-project/conclave/examples/internal/printed"
)

// Two members own six partitions each. When one is interrupted, the other owns
// all twelve. The servers' leader is killed in between.
func TestPartitionsMove(t *testing.T) {
	e := conclavetest.Start(t)
	member := func(id string) func(context.Context, io.Writer) error {
		return func(ctx context.Context, out io.Writer) error { return run(ctx, e.Servers(), id, out) }
	}
	a, stop := printed.Lines(t, member("a"))
	printed.Await(t, a, "a sees 1 members: a a a a a a a a a a a a")
	b, _ := printed.Lines(t, member("b"))
	printed.Await(t, b, "b sees 2 members: a a a a a a b b b b b b")
	e.Kill(e.Leader())
	e.Leader()
	stop()
	printed.Await(t, b, "b sees 1 members: b b b b b b b b b b b b")
}
