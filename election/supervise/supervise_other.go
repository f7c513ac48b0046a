//go:build !unix

package supervise

import (
	"context"
	"errors"

	"github.com/conclave-project/conclave/election"
)

// run does not work here: it needs signals, process groups and descriptors that children inherit.
func run(context.Context, *election.Elector, Command) (int, error) {
	return ExitError, errors.New("supervise: this system is not supported; use package election in the program itself")
}

// Guardian is never started here.
func Guardian() int { return ExitError }
