package election

import (
	"errors"
	"fmt"
)

// Errors that callers may compare with errors.Is.
var (
	// ErrInvalid matches the errors of New and ValidateName: a name, an id or
	// options that cannot be.
	ErrInvalid = errors.New("invalid")
	// ErrLost matches every error that reports a leadership that ended
	// against the holder's will. A Backend returns it, wrapped or not, when
	// the store said that a grant is gone.
	ErrLost = errors.New("leadership lost")
	// ErrPermanent marks failures that no retry can overcome; see
	// Permanent.
	ErrPermanent = errors.New("permanent failure")
	// ErrClosed marks, beside ErrPermanent, failures of a backend that has
	// ended in this process: it was closed, or cannot go on.
	ErrClosed = errors.New("this backend was closed")
	// ErrResigned is the cause of a context that ended because of Resign.
	ErrResigned = errors.New("leadership resigned")
	// ErrTransferred is the cause of a context that ended because another
	// candidate was chosen to lead.
	ErrTransferred = errors.New("leadership transferred")
	// ErrNotLeader is returned by Resign and TransferTo when there is nothing
	// to give up.
	ErrNotLeader = errors.New("this candidate does not lead")
	// ErrRunning is returned by Run while another Run of the same Elector has
	// not returned.
	ErrRunning = errors.New("this elector is running already")
	// ErrHeld matches the *HeldError of Try: another candidate leads.
	ErrHeld = errors.New("another candidate leads")
	// ErrNoCandidate is returned when nobody with the wanted id waits.
	ErrNoCandidate = errors.New("no such candidate waits")
	// ErrNoLeader is returned when a request finds nobody who leads.
	ErrNoLeader = errors.New("nobody leads")
	// ErrResigning is returned when a transfer is asked of a leader that was asked to resign
	// and has not done so yet.
	ErrResigning = errors.New("the leader was asked to resign before")
	// ErrLeaseTooShort is returned by Leadership.Ensure when no renewal can leave as
	// much time as was asked for.
	ErrLeaseTooShort = errors.New("the lease is too short")
	// ErrNoSpace matches failures for want of space, on a disk or where a backend keeps
	// who waits.
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

// Unwrap returns the last error of the backend. It does not match ErrPermanent, though Err
// may: that was about the leadership that is lost, and a store that has served it may serve
// again.
func (e *LostError) Unwrap() error {
	if e.Err == nil {
		return nil
	}
	return &passedError{e.Err}
}

// passedError hides that its error is one that no retry can overcome.
type passedError struct{ err error }

func (e *passedError) Error() string { return e.err.Error() }
func (e *passedError) Is(target error) bool {
	return target != ErrPermanent && errors.Is(e.err, target)
}
func (e *passedError) As(target any) bool { return errors.As(e.err, target) }

// errNotMade is what a zero Elector says.
var errNotMade error = &invalidError{errors.New("this Elector was not made by New")}

// invalidError matches ErrInvalid and says only what is wrong.
type invalidError struct{ err error }

func (e *invalidError) Error() string        { return e.err.Error() }
func (e *invalidError) Unwrap() error        { return e.err }
func (e *invalidError) Is(target error) bool { return target == ErrInvalid }

// Permanent marks an error as one that no retry can overcome: a damaged
// state file, a refused name, a missing right. Run returns it instead of
// trying again, unless the store has served this Elector before. It has when it
// elected it, or let it wait for ten seconds: a proxy without servers behind it,
// or a server that starts, refuses what it allows later. Run then tries again,
// as after any failure, and reports it with EventCampaignFailed. An error that
// matches ErrClosed, too, always ends it.
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
