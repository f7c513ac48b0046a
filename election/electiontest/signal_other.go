//go:build !unix

package electiontest

import (
	"context"
	"errors"
	"testing"

	"github.com/conclave-project/conclave/election"
)

// freeze is not possible on this system.
func (p *process) freeze() { p.t.Skip("this system cannot freeze a process") }

func (p *process) thaw() {}

func freeze(t testing.TB, _ int) { t.Skip("this system cannot freeze a process") }

// testLostUpdates is not possible without pausing processes.
func testLostUpdates(t *testing.T, _ Suite) { t.Skip("this system cannot freeze a process") }

func (o order) update(context.Context, election.Leadership) error {
	return errors.ErrUnsupported
}
