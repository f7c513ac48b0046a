package zookeeper

import (
	"errors"
	"fmt"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/queue"
	"github.com/conclave-project/conclave/zk"
)

var (
	errGone   = fmt.Errorf("%w: this candidate's znode was deleted", election.ErrLost)
	errClosed = election.Permanent(election.ErrClosed)
	// errForeign says that the data of the election's znode is not ours to
	// change.
	errForeign = errors.New("the data of the election's znode was written by another program")
)

// Mark gives errors of the store the marks of package election.
func (s *store) Mark(err error) error {
	switch {
	case errors.Is(err, zk.ErrAuthFailed), errors.Is(err, zk.ErrNoAuth), errors.Is(err, zk.ErrInvalidACL):
		return election.Permanent(fmt.Errorf("%w; give credentials that may act below the root of elections", err))
	case errors.Is(err, zk.ErrSessionExpired):
		return fmt.Errorf("%w: %w", election.ErrLost, err)
	}
	return err
}

// unless returns another error instead of one that matches, nil instead of nil.
func unless(err, matches, other error) error {
	if errors.Is(err, matches) {
		return other
	}
	return err
}

// unlessHistory returns queue.ErrNoHistory instead of an error that is due to the history
// which was to be written: others have its place, or a quota has no space for it.
func unlessHistory(err error, history *queue.History) error {
	if history == nil {
		return err
	}
	return unless(unless(err, zk.ErrNoAuth, queue.ErrNoHistory), zk.ErrQuotaExceeded, queue.ErrNoHistory)
}
