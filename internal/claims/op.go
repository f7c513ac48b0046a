package claims

import (
	"errors"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
)

// Op is one call that reads and writes a record. Begin says what it wants first,
// and Answer, with the answer to that, what it wants next, until it is Done.
type Op interface {
	Begin(now clock.Instant) Want
	Answer(now clock.Instant, a Answer) Want
}

// WantKind is what an Op wants.
type WantKind uint8

// The kinds of wants.
const (
	Done  WantKind = iota // nothing more: Grant and Err are what has come of it
	Read                  // the record
	Write                 // Record, if the stored one still has Version; one attempt
	Wait                  // until the record has another version than Version, at most Until
	Pause                 // until Until
)

// Want is what an Op wants of its shell, sent at once.
type Want struct {
	Kind    WantKind
	Record  Record
	Version string
	Until   clock.Instant
	// Warm asks for a warm-up beside it; the shell reports its end with
	// Candidate.Warmed.
	Warm  bool
	Grant election.Grant
	Err   error // nil for success, ErrUnanswered where the store's own error tells more
}

// ErrUnanswered ends an Op of whose last request nobody knows what became.
var ErrUnanswered = errors.New("no answer")

// ErrReleased ends an Op of a claim that was released meanwhile.
var ErrReleased = errors.New("the claim was withdrawn")

// AnswerKind is what the store has said.
type AnswerKind uint8

// The kinds of answers.
const (
	Unanswered AnswerKind = iota // an error, or nothing in time; a write may take effect, also later
	Shown                        // to Read: Record and Version
	Written                      // the record has the new Version
	Conflict                     // it had another version, and nothing was written
	NotYet                       // nothing was written, and no new holder will be for After
	Woken                        // to Wait and Pause: it is over
	Told                         // to Wait: the watch has brought Record and Version, perhaps late
)

// Answer is the answer to a Want.
type Answer struct {
	Kind    AnswerKind
	Record  Record
	Version string
	After   time.Duration
	// Incarnation is the store's, as its last answer told it; Wall is the wall
	// clock. Both come with Shown.
	Incarnation string
	Wall        time.Time
}

// String names a kind of answer in traces.
func (k AnswerKind) String() string {
	return [...]string{"unanswered", "shown", "written", "conflict", "not yet", "woken", "told"}[k]
}
