//go:build !unix

package supervise

import (
	"context"
	"fmt"

	"github.com/conclave-project/conclave/election"
)

// run does not work here: it needs signals, process groups and descriptors that children inherit.
func run(context.Context, *election.Elector, Command) (int, error) {
	return ExitError, fmt.Errorf("supervise: %w", ErrSystem)
}

// Guardian is never started here.
func Guardian() int { return ExitError }
