package election

import (
	"errors"
	"fmt"
)

// Errors that callers may compare with errors.Is.
var (
	// ErrInvalid matches the errors of New and ValidateName: a name, an id or options that are
	// not valid.
	ErrInvalid = errors.New("invalid")
	// ErrLost matches every error that reports a leadership that ended against the holder's will.
	// A Backend returns it, wrapped or not, if the store said that a grant is gone.
	ErrLost = errors.New("leadership lost")
	// ErrPermanent marks failures that no retry can overcome; see
	// Permanent.
	ErrPermanent = errors.New("permanent failure")
	// ErrClosed marks, in addition to ErrPermanent, failures of a backend that has ended in this
	// process: it was closed, or cannot go on.
	ErrClosed = errors.New("this backend was closed")
	// ErrResigned is the cause of a context that ended because of Resign.
	ErrResigned = errors.New("leadership resigned")
	// ErrTransferred is the cause of a context that ended because another
	// candidate was chosen to lead.
	ErrTransferred = errors.New("leadership transferred")
	// ErrNotLeader is returned by Resign and TransferTo if this candidate does not lead.
	ErrNotLeader = errors.New("this candidate does not lead")
	// ErrRunning is returned by Run while another Run of the same Elector has
	// not returned.
	ErrRunning = errors.New("this elector is already running")
	// ErrHeld matches the *HeldError of Try: another candidate leads.
	ErrHeld = errors.New("another candidate leads")
	// ErrNoCandidate is returned if no waiter has the wanted id.
	ErrNoCandidate = errors.New("no such candidate waits")
	// ErrNoLeader is returned for a request if nobody leads.
	ErrNoLeader = errors.New("nobody leads")
	// ErrResigning is returned if a transfer is requested from a leader that was asked to resign
	// and has not done so yet.
	ErrResigning = errors.New("the leader has already been asked to resign")
	// ErrLeaseTooShort is returned by Leadership.Ensure if no renewal can leave as much time as
	// was asked for.
	ErrLeaseTooShort = errors.New("the lease is too short")
	// ErrNoSpace matches failures due to lack of space, on a disk or where a backend keeps its
	// waiters.
	ErrNoSpace = errors.New("no space left")
)

// LostError tells how a leadership was lost. It matches ErrLost.
type LostError struct {
	Election string
	Token    Token
	Reason   Reason
	// Err is the last error of the backend before the loss, nil when there was none.
	Err error
}

// Error says what was lost and what the backend said.
func (e *LostError) Error() string {
	text := fmt.Sprintf("election %q: leadership with token %d lost: %v", e.Election, e.Token, e.Reason)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Is matches ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Unwrap returns the last error of the backend. What it returns does not match ErrPermanent, even
// if Err does: that error was about the lost leadership, and a store that has served it may serve
// again.
func (e *LostError) Unwrap() error {
	if e.Err == nil {
		return nil
	}
	return &passedError{e.Err}
}

// passedError wraps an error so that it no longer matches ErrPermanent.
type passedError struct{ err error }

func (e *passedError) Error() string { return e.err.Error() }
func (e *passedError) Is(target error) bool {
	return target != ErrPermanent && errors.Is(e.err, target)
}
func (e *passedError) As(target any) bool { return errors.As(e.err, target) }

// errNotMade is the error of a zero Elector.
var errNotMade error = &invalidError{errors.New("this Elector was not made by New")}

// invalidError matches ErrInvalid; its text says only what is wrong.
type invalidError struct{ err error }

func (e *invalidError) Error() string        { return e.err.Error() }
func (e *invalidError) Unwrap() error        { return e.err }
func (e *invalidError) Is(target error) bool { return target == ErrInvalid }

// Permanent marks an error as one that no retry can overcome: a damaged state file, a refused
// name, a missing permission. Run returns it instead of trying again, unless the store has served
// this Elector before, that is, has elected it or let it wait for ten seconds. In that case Run
// tries again, as after any failure, and reports the error with EventCampaignFailed, because a
// proxy with no servers behind it, or a server that is starting, refuses what it allows later. An
// error that also matches ErrClosed always ends Run.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

type permanentError struct{ err error }

func (e *permanentError) Error() string        { return e.err.Error() }
func (e *permanentError) Unwrap() error        { return e.err }
func (e *permanentError) Is(target error) bool { return target == ErrPermanent }
