//go:build !unix

package supervise

import (
	"context"
	"fmt"
	"io"
)

// shellCommand does not work here: it needs process groups.
type shellCommand struct {
	text, dir      string
	env            []string
	stdout, stderr io.Writer
}

func (shellCommand) run(context.Context) error {
	return fmt.Errorf("supervise: %w", ErrSystem)
}
