package command

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/election"
)

// plain is a backend that answers no operators.
type plain struct{}

func (plain) Traits() election.Traits { return election.Traits{Name: "plain"} }

func (plain) Acquire(context.Context, election.Claim) (election.Grant, error) {
	return election.Grant{}, errors.ErrUnsupported
}

func (plain) Renew(_ context.Context, g election.Grant) (election.Grant, error) {
	return g, errors.ErrUnsupported
}

func (plain) Release(context.Context, election.Grant) error { return nil }

func (plain) Observe(context.Context, string) iter.Seq2[election.View, error] {
	return func(func(election.View, error) bool) {}
}

func TestBackendWithoutOperatorIsToldFromThoseWith(t *testing.T) {
	_, err := (&opened{Backend: plain{}}).operator()
	var hinted *cli.Error
	if !errors.As(err, &hinted) || !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "plain") {
		t.Fatalf("got %v", err)
	}
	for _, k := range backends {
		if strings.Contains(hinted.Hint, k.scheme) != (k.operator && !k.membersOnly) {
			t.Errorf("the hint %q is wrong about %s", hinted.Hint, k.scheme)
		}
	}
	if backend[plain]("plain", "", "", nil).operator {
		t.Error("the plain backend was taken for one that answers operators")
	}
}
