package client

import (
	"errors"
	"fmt"

	"github.com/conclave-project/conclave/internal/clientsession"
	"github.com/conclave-project/conclave/zk"
)

// Outcome is what is known about the effect of a request that has failed.
type Outcome uint8

// The outcomes. The zero value is the one that promises nothing.
const (
	// Unknown is a write that was sent and whose reply was lost.
	Unknown = Outcome(clientsession.Unknown)
	// NotApplied is a request that changed nothing: a read, a request that never
	// left, or one that the server refused.
	NotApplied = Outcome(clientsession.NotApplied)
	// Applied is a write that succeeded, but whose reply could not be read.
	Applied = Outcome(clientsession.Applied)
)

// String returns the outcome as text.
func (o Outcome) String() string { return clientsession.Outcome(o).String() }

// Error is how a request fails. errors.Is finds in it the zk.Code of the server
// or of the library (zk.ErrConnectionLoss, zk.ErrSessionExpired,
// zk.ErrClosing), or the context's error.
type Error struct {
	Op      zk.Op
	Path    string // as the program gave it
	Err     error
	Outcome Outcome
}

// Error tells what was done, to what, why it failed, and, where it is in
// doubt, what has become of it.
func (e *Error) Error() string {
	text := called(e.Op)
	if e.Path != "" {
		text += " " + e.Path
	}
	text += ": " + e.Err.Error()
	if e.Outcome != NotApplied {
		text += " (" + e.Outcome.String() + ")"
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// called is an operation as a program calls it: those that only the protocol tells
// apart have one name.
func called(op zk.Op) string {
	switch op {
	case zk.OpCreate2, zk.OpCreateContainer, zk.OpCreateTTL:
		op = zk.OpCreate
	case zk.OpGetChildren2:
		op = zk.OpGetChildren
	}
	return op.String()
}

// OutcomeOf tells what err says about the effect of the request that returned
// it: Applied for nil, Unknown if err is not from this package.
func OutcomeOf(err error) Outcome {
	var e *Error
	switch {
	case err == nil:
		return Applied
	case errors.As(err, &e):
		return e.Outcome
	}
	return Unknown
}

// refusal is the error of a request that is wrong before it is sent.
func refusal(op zk.Op, path string, err error) error {
	return &Error{op, path, fmt.Errorf("%w: %w", zk.ErrBadArguments, err), NotApplied}
}

// ErrRequestTooLong is why a request was not sent that is longer than
// Options.RequestBytesMax.
var ErrRequestTooLong = errors.New("client: request is too long (Options.RequestBytesMax)")

// tooLong is ErrRequestTooLong with the numbers.
type tooLong struct{ bytes, most int }

func (e *tooLong) Error() string {
	return fmt.Sprintf("the request has %d bytes, and the most is %d (jute.maxbuffer)", e.bytes, e.most)
}

func (e *tooLong) Unwrap() []error { return []error{ErrRequestTooLong, zk.ErrBadArguments} }

// ErrReplyTooLong is why a request has failed whose reply is longer than
// Options.ReplyBytesMax. The other requests of the client are not concerned.
var ErrReplyTooLong = errors.New("client: reply is too long (Options.ReplyBytesMax)")

// ErrWatchClosed is why a watch has ended that the program has closed.
var ErrWatchClosed = errors.New("client: watch was closed")
