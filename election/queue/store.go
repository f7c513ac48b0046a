package queue

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
)

// Store is what this package needs of a store: a queue of candidates for each
// election. Implementations are safe for use by several goroutines, and return
// soon after their context has ended.
type Store interface {
	// Traits names the store and says what it rests on: Name, LeaseMin and
	// Guarantees; this package fills in the rest. It does no I/O.
	Traits() election.Traits

	// Entry returns what the store does for one claim. It does no I/O. The life
	// ends when the claim is released.
	Entry(life context.Context, claim election.Claim) Entry

	// Observe returns what shows an election to one observer, for its life.
	Observe(life context.Context, name string) Observer

	// Names returns the names of the elections that the store knows, in any
	// order.
	Names(ctx context.Context) ([]string, error)

	// Ask leaves a request, which goes with the holder's lease, and wakes the
	// holder, unless Request.Replaces refuses it beside the one that stands there.
	// ErrConflict says that it does not hold the election any more.
	Ask(ctx context.Context, name string, holder Holder, request election.Request) error

	// Mark gives errors of the store the marks of package election: ErrLost,
	// ErrPermanent, ErrNoSpace.
	Mark(err error) error
}

// Errors of a Store.
var (
	// ErrConflict says that something was changed meanwhile, and nothing done.
	ErrConflict = errors.New("it was changed meanwhile")
	// ErrNoHistory says that the history cannot be kept: there is no space for
	// it, or another program has its place.
	ErrNoHistory = errors.New("the history cannot be kept")
	// ErrReplaced says that another nomination stands there.
	ErrReplaced = errors.New("another candidate was chosen meanwhile")
	// ErrForeign says why a hand-over is refused (queue-Q6).
	ErrForeign = errors.New("candidates of other clients are waiting before it and cannot be moved; wait until " +
		"they have led, or end them")
)

// Entry is one claim in the store. It waits, holds the election, and hands it
// over. Errors that match election.ErrLost, once marked, say that the claim has
// nothing any more.
type Entry interface {
	Waiting
	Holding
	Handing

	// Revoke takes away whatever there is of the claim, and returns nil only if
	// nothing is left. It may be called again.
	Revoke(ctx context.Context) error
}

// Waiting is the part of a waiter. One goroutine uses it, except for Answer,
// which another one calls beside it.
type Waiting interface {
	// Create makes the claim's lease.
	Create(ctx context.Context) (Lease, error)
	// Enter puts the entry at the end of the queue. An entry that is there stays
	// where it is.
	Enter(ctx context.Context) error
	// Renew extends the lease.
	Renew(ctx context.Context) (Lease, error)
	// Place finds where the entry is.
	Place(ctx context.Context) (Place, error)
	// Wait returns when the latest Place may have changed, or after the limit.
	// An error says that the store cannot tell.
	Wait(ctx context.Context, limit time.Duration) error
	// Answer tells the holder how the warm-up for a nomination has ended. It
	// returns nil also when that nomination does not stand any more.
	Answer(ctx context.Context, nomination Nomination) error
}

// Quiet is an Entry that knows whether anything has come of what it waits for.
type Quiet interface {
	// Quiet reports whether the latest Wait, which has returned nil, has ended at
	// its limit with all watches alive: the latest Place stands, as far as they tell.
	Quiet() bool
}

// Locker is an Entry of a store whose head is a lock, which must be taken.
type Locker interface {
	// Lock takes the lock for the first in the queue, and returns the token. Zero
	// without an error says, after a pause, that it was not to be had.
	Lock(ctx context.Context) (election.Token, error)
}

// Guarded is an Entry of a store in whose transactions it can be checked that the
// entry leads.
type Guarded interface {
	// Condition returns the check for the holder that the entry is now, as the
	// store's client has it (Grant.Guard). It does no I/O.
	Condition() any
}

// Holding is the part of the holder. Several goroutines use it.
type Holding interface {
	// Prove has the store decide, after a renewal, that the entry is at the head of
	// the queue, with a write of the history in the same decision if there is
	// one. ErrConflict says that the history has another version.
	Prove(ctx context.Context, history *History) (Proof, error)
	// Guard calls news when a renewal may bring some, until the context ends. It
	// returns election.ErrLost when the entry is seen to be gone, and another
	// error when the store cannot tell: it is called again then.
	Guard(ctx context.Context, news func()) error
	// Leave gives the election up to the successor, nil for the first to come,
	// with a write of the history in the same decision if there is one. It
	// changes nothing with ErrConflict (the history has another version, or the
	// successor has gone) and with election.ErrLost.
	Leave(ctx context.Context, history *History, successor *Candidate) error
	// History reads the history of the election.
	History(ctx context.Context) (History, error)
	// Note writes the history if it still has the version.
	Note(ctx context.Context, history History) error
}

// Handing is the part of a holder that chooses its successor.
type Handing interface {
	// Waiters yields the waiters after the holder, the first one first.
	Waiters(ctx context.Context) iter.Seq2[Candidate, error]
	// Nominate tells a waiter that it is chosen. The nomination it returns has no
	// version.
	Nominate(ctx context.Context, chosen Candidate) (Nomination, error)
	// Answered returns the nomination, one with a version once it may have
	// another, or after some time. It returns election.ErrNoCandidate when the
	// waiter has gone, election.ErrLost when the holder has, and ErrReplaced.
	Answered(ctx context.Context, chosen Candidate, nomination Nomination) (Nomination, error)
	// Promote brings a waiter that is ready to the front of the queue, unless
	// Leave does that.
	Promote(ctx context.Context, chosen Candidate) error
}

// Observer follows one election. One goroutine uses it.
type Observer interface {
	// Look returns the election. The latest state is that after all that was
	// written before; an observer may do with what one server shows.
	Look(ctx context.Context, latest bool) (Sight, error)
	// Wait returns when it may have changed since the latest Look, which has not
	// failed, or after some time. An error says that the store cannot tell.
	Wait(ctx context.Context) error
}

// Lease is for how long the store keeps an entry that is not renewed.
type Lease struct {
	// Sent is the instant before which the request for it was not sent.
	Sent clock.Instant
	// Length counts from Sent. Zero says that the store's client renews the lease
	// by itself, and repeats requests itself.
	Length time.Duration
}

// Standing is where an entry is.
type Standing uint8

// The standings of an entry.
const (
	Gone   Standing = iota // not in the queue
	Queued                 // somebody is before it
	Head                   // nobody is
)

// Place is what a waiter sees of itself.
type Place struct {
	Standing Standing
	// Token is that of the leadership, for an entry at the head. Zero says that
	// it must be taken: the entry is a Locker.
	Token election.Token
	// Nomination is the latest one of this entry, the zero one for none.
	Nomination Nomination
}

// Nomination is the holder's choice of a successor.
type Nomination struct {
	// Round differs between any two nominations of one entry; empty for none.
	Round string
	State State
	// Error is why the waiter could not warm up.
	Error string
	// Version is that at which the store has shown it.
	Version uint64
}

// State is how far a nominated waiter is.
type State string

// The states of a nominee.
const (
	Nominated State = ""
	Ready     State = "ready"
	Failed    State = "failed"
)

// Proof is what the store says of a leadership.
type Proof struct {
	// Lease is the one proved, zero if that is the renewal's.
	Lease
	// Request is what stands there for a leader of this election, nil for
	// nothing.
	Request *election.Request
	// Rival is the id of the waiter that outranks the holder, empty for none.
	Rival string
	// Version is that of the history which was written with it.
	Version uint64
}

// History is the latest leaderships of an election, and the version at which
// they stand in the store.
type History struct {
	Tenures []election.Tenure
	Version uint64
}

// Candidate is an entry of the queue as others see it.
type Candidate struct {
	ID       string
	Priority int
	// Key names the entry in the store, and Owner what it goes with, as far as
	// the store needs it. Created tells entries of one key apart.
	Key, Owner string
	Created    uint64
	// Metadata is what the candidate says of itself. Observers see it; a holder that
	// looks at its waiters need not.
	Metadata []byte
	// Foreign: of another client, which knows nothing of hand-overs.
	Foreign bool
}

// Holder is the candidate that leads.
type Holder struct {
	Candidate
	Token election.Token
	// Since is zero where only the history tells it.
	Since time.Time
}

// Sight is an election as the store shows it.
type Sight struct {
	// Holder has no token when nobody leads.
	Holder Holder
	// Waiting are the others, the first one first.
	Waiting []Candidate
	History []election.Tenure
}
