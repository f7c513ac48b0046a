package main

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/conclave-project/conclave/conclavetest"
	"github.com/conclave-project/conclave/examples/internal/printed"
)

// The second process gets the lock when the first releases it, even if the
// servers' leader is killed in between.
func TestLockGoesFromHandToHand(t *testing.T) {
	e := conclavetest.Start(t)
	hold := func(d time.Duration) func(context.Context, io.Writer) error {
		return func(ctx context.Context, out io.Writer) error { return run(ctx, e.Servers(), d, out) }
	}
	first, release := printed.Lines(t, hold(time.Hour))
	printed.Await(t, first, "held with token")
	second, _ := printed.Lines(t, hold(0))
	printed.Await(t, second, "waiting for the lock")
	e.Kill(e.Leader())
	release()
	printed.Await(t, second, "held with token")
}
