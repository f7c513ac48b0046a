package client

import (
	"errors"
	"fmt"

	"github.com/conclave-project/conclave/internal/clientsession"
	"github.com/conclave-project/conclave/zk"
)

// Outcome is what is known about the effect of a failed request.
type Outcome uint8

// The outcomes. The zero value, Unknown, promises nothing.
const (
	// Unknown: a write was sent and its reply was lost.
	Unknown = Outcome(clientsession.Unknown)
	// NotApplied: the request changed nothing. It was a read, was never sent, or was refused by
	// the server.
	NotApplied = Outcome(clientsession.NotApplied)
	// Applied: a write succeeded, but its reply could not be read.
	Applied = Outcome(clientsession.Applied)
)

// String returns the outcome as text.
func (o Outcome) String() string { return clientsession.Outcome(o).String() }

// Error is the error of a failed request. errors.Is finds in it the zk.Code of the server or of
// the library (zk.ErrConnectionLoss, zk.ErrSessionExpired, zk.ErrClosing), or the context's
// error.
type Error struct {
	Op      zk.Op
	Path    string // as the program gave it
	Err     error
	Outcome Outcome
}

// Error says what was done, to which path, why it failed, and, if that is in doubt, whether it
// was applied.
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

// called returns the name that programs use for an operation: variants that differ only in
// the protocol have one name.
func called(op zk.Op) string {
	switch op {
	case zk.OpCreate2, zk.OpCreateContainer, zk.OpCreateTTL:
		op = zk.OpCreate
	case zk.OpGetChildren2:
		op = zk.OpGetChildren
	}
	return op.String()
}

// OutcomeOf returns what err says about the effect of the request that returned it: Applied for
// nil, Unknown if err is not from this package.
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

// refusal is the error for a request that is refused before it is sent.
func refusal(op zk.Op, path string, err error) error {
	return &Error{op, path, fmt.Errorf("%w: %w", zk.ErrBadArguments, err), NotApplied}
}

// ErrRequestTooLong is the error of a request that was not sent because it is longer than
// Options.RequestBytesMax.
var ErrRequestTooLong = errors.New("client: request is too long (Options.RequestBytesMax)")

// tooLong is ErrRequestTooLong with the two sizes.
type tooLong struct{ bytes, most int }

func (e *tooLong) Error() string {
	return fmt.Sprintf("the request has %d bytes, and the most is %d (jute.maxbuffer)", e.bytes, e.most)
}

func (e *tooLong) Unwrap() []error { return []error{ErrRequestTooLong, zk.ErrBadArguments} }

// ErrReplyTooLong is the error of a request whose reply is longer than Options.ReplyBytesMax.
// Other requests of the client are not affected.
var ErrReplyTooLong = errors.New("client: reply is too long (Options.ReplyBytesMax)")

// ErrWatchClosed is the error of a watch that the program has closed.
var ErrWatchClosed = errors.New("client: watch was closed")
