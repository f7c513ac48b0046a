package claims

import (
	"errors"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
)

// Op is one call that reads and writes a record. Begin returns its first Want.
// Answer takes the answer to a Want and returns the next one, until that is
// Done.
type Op interface {
	Begin(now clock.Instant) Want
	Answer(now clock.Instant, a Answer) Want
}

// WantKind is the kind of a Want.
type WantKind uint8

// The kinds of wants.
const (
	Done  WantKind = iota // nothing more: Grant and Err are the result
	Read                  // read the record
	Write                 // write Record if the stored one still has Version; one attempt
	Wait                  // wait until the record's version is not Version, at most until Until
	Pause                 // wait until Until
)

// Want is what an Op wants its shell to do at once.
type Want struct {
	Kind    WantKind
	Record  Record
	Version string
	Until   clock.Instant
	// Warm asks the shell to also start a warm-up, and to report its end with
	// Candidate.Warmed.
	Warm  bool
	Grant election.Grant
	Err   error // nil for success; ErrUnanswered if the store's own error says more
}

// ErrUnanswered ends an Op whose last request may or may not have taken effect.
var ErrUnanswered = errors.New("no answer")

// ErrReleased ends an Op of a claim that was released meanwhile.
var ErrReleased = errors.New("the claim was withdrawn")

// AnswerKind is the kind of an Answer.
type AnswerKind uint8

// The kinds of answers.
const (
	Unanswered AnswerKind = iota // an error or a timeout; a write may still take effect, even later
	Shown                        // to Read: Record and Version
	Written                      // the record has the new Version
	Conflict                     // the record had another version, and nothing was written
	NotYet                       // nothing was written, and there will be no new holder for the time After
	Woken                        // to Wait and Pause: the wait is over
	Told                         // to Wait: the watch has delivered Record and Version, perhaps late
)

// Answer is the answer to a Want.
type Answer struct {
	Kind    AnswerKind
	Record  Record
	Version string
	After   time.Duration
	// Incarnation is the store's, from its last answer; Wall is the wall clock.
	// Both come with Shown.
	Incarnation string
	Wall        time.Time
}

// String names a kind of answer in traces.
func (k AnswerKind) String() string {
	return [...]string{"unanswered", "shown", "written", "conflict", "not yet", "woken", "told"}[k]
}
