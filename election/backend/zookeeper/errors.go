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
	// errForeign is returned if another program has written the data of the election's
	// znode.
	errForeign = errors.New("the data of the election's znode was written by another program")
)

// Mark adds the marks of package election to errors of the store.
func (s *store) Mark(err error) error {
	switch {
	case errors.Is(err, zk.ErrAuthFailed), errors.Is(err, zk.ErrNoAuth), errors.Is(err, zk.ErrInvalidACL):
		return election.Permanent(fmt.Errorf("%w; give credentials that may act below the root of elections", err))
	case errors.Is(err, zk.ErrSessionExpired):
		return fmt.Errorf("%w: %w", election.ErrLost, err)
	}
	return err
}

// unless returns other if err matches matches. It returns nil for nil.
func unless(err, matches, other error) error {
	if errors.Is(err, matches) {
		return other
	}
	return err
}

// unlessHistory returns queue.ErrNoHistory for an error that was caused by writing the
// history: other data is in its place, or a quota leaves no space for it.
func unlessHistory(err error, history *queue.History) error {
	if history == nil {
		return err
	}
	return unless(unless(err, zk.ErrNoAuth, queue.ErrNoHistory), zk.ErrQuotaExceeded, queue.ErrNoHistory)
}
