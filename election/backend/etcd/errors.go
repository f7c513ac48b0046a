package etcd

import (
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/conclave-project/conclave/election"
)

// errNoKey says that the candidate's key does not exist or is not the one that it has put.
var errNoKey = fmt.Errorf("%w: this candidate's key is gone", election.ErrLost)

// Mark adds the marks of package election to errors of etcd.
func (s *store) Mark(err error) error {
	switch {
	case err != nil && s.client.Ctx().Err() != nil:
		return election.Permanent(fmt.Errorf("%w; a client that is closed stays so (%w)", err, election.ErrClosed))
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return fmt.Errorf("%w: %w", election.ErrLost, err)
	case errors.Is(err, rpctypes.ErrPermissionDenied), errors.Is(err, rpctypes.ErrUserEmpty),
		errors.Is(err, rpctypes.ErrAuthFailed):
		return election.Permanent(fmt.Errorf("%w; give credentials of a user who may read and write the "+
			"election's keys and those below /conclave/", err))
	case errors.Is(err, rpctypes.ErrNoSpace):
		return fmt.Errorf("%w: %w; nobody new can join; compact and defragment, then disarm the alarm",
			election.ErrNoSpace, err)
	}
	return err
}
