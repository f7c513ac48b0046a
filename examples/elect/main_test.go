package main

import (
	"context"
	"io"
	"testing"

	"github.com/conclave-project/conclave/conclavetest"
	"github.com/conclave-project/conclave/examples/internal/printed"
)

// A leader keeps the lead when the servers' leader is killed. When it is stopped, the
// next candidate leads.
func TestLeadershipIsHandedOver(t *testing.T) {
	e := conclavetest.Start(t)
	candidate := func(ctx context.Context, out io.Writer) error { return run(ctx, e.Servers(), out) }
	first, stop := printed.Lines(t, candidate)
	printed.Await(t, first, "leading with token")
	second, _ := printed.Lines(t, candidate)
	printed.Await(t, second, "waiting")
	e.Kill(e.Leader())
	e.Leader()
	printed.Await(t, first, "working")
	printed.Await(t, first, "working")
	stop()
	printed.Await(t, second, "leading with token")
}
