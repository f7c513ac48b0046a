package main

import (
	"context"
	"io"
	"testing"

	"github.com/conclave-project/conclave/conclavetest"
	"github.com/conclave-project/conclave/examples/internal/printed"
)

// When one of two workers is stopped the other one gets all the tasks.
func TestTasksMoveToThoseThatAreLeft(t *testing.T) {
	e := conclavetest.Start(t)
	worker := func(ctx context.Context, out io.Writer) error { return run(ctx, e.Servers(), out) }
	first, stop := printed.Lines(t, worker)
	printed.Await(t, first, "works on 0 1 2 3 4 5 6 7 8 9 10 11")
	second, _ := printed.Lines(t, worker)
	printed.Await(t, second, "works on 1 3 5 7 9 11")
	printed.Await(t, first, "works on 0 2 4 6 8 10")
	stop()
	printed.Await(t, second, "works on 0 1 2 3 4 5 6 7 8 9 10 11")
}
