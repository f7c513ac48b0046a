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
	// Traits names the store and says what it depends on: Name, LeaseMin and Guarantees; this
	// package fills in the rest. It does no I/O.
	Traits() election.Traits

	// Entry returns the store's side of one claim. It does no I/O. The context life ends when the
	// claim is released.
	Entry(life context.Context, claim election.Claim) Entry

	// Observe returns an Observer of an election, for one caller, until life ends.
	Observe(life context.Context, name string) Observer

	// Names returns the names of the elections that the store knows, in any
	// order.
	Names(ctx context.Context) ([]string, error)

	// Ask leaves a request, which disappears with the holder's lease, and wakes the holder,
	// unless Request.Replaces refuses it because of the pending one. ErrConflict means that the
	// holder no longer holds the election.
	Ask(ctx context.Context, name string, holder Holder, request election.Request) error

	// Mark wraps errors of the store so that they match those of package election: ErrLost,
	// ErrPermanent, ErrNoSpace.
	Mark(err error) error
}

// Errors of a Store.
var (
	// ErrConflict means that something was changed in the meantime, and nothing was done.
	ErrConflict = errors.New("it was changed in the meantime")
	// ErrNoHistory means that the history cannot be kept: there is no space for it, or another
	// program uses its place.
	ErrNoHistory = errors.New("the history cannot be kept")
	// ErrReplaced means that another nomination has taken the place of this one.
	ErrReplaced = errors.New("another candidate was chosen in the meantime")
	// ErrForeign says why a hand-over is refused (queue-Q6).
	ErrForeign = errors.New("candidates of other clients are waiting before it and cannot be moved; wait until " +
		"they have led, or end them")
)

// Entry is one claim in the store. It waits, holds the election, and hands it over. An error that
// matches election.ErrLost, once marked, means that the claim has nothing left in the store.
type Entry interface {
	Waiting
	Holding
	Handing

	// Revoke removes whatever there is of the claim, and returns nil only if nothing is left. It
	// may be called again.
	Revoke(ctx context.Context) error
}

// Waiting is the part of a waiter. One goroutine uses it, except for Answer, which another one
// may call at the same time.
type Waiting interface {
	// Create creates the claim's lease.
	Create(ctx context.Context) (Lease, error)
	// Enter puts the entry at the end of the queue. An entry that is already in the queue stays
	// where it is.
	Enter(ctx context.Context) error
	// Renew extends the lease.
	Renew(ctx context.Context) (Lease, error)
	// Place finds where the entry is.
	Place(ctx context.Context) (Place, error)
	// Wait returns when the latest Place may have changed, or after the limit.
	// An error means that the store cannot tell.
	Wait(ctx context.Context, limit time.Duration) error
	// Answer tells the holder how the warm-up for a nomination has ended. It returns nil even if
	// that nomination no longer stands.
	Answer(ctx context.Context, nomination Nomination) error
}

// Quiet is an Entry that knows whether its watches have reported anything.
type Quiet interface {
	// Quiet reports whether the latest Wait, which returned nil, ended at its limit with all
	// watches alive: as far as they tell, the latest Place is still right.
	Quiet() bool
}

// Locker is an Entry of a store whose head is a lock, which must be taken.
type Locker interface {
	// Lock takes the lock for the first in the queue, and returns the token. If the lock could
	// not be had, it returns zero without an error, after a pause.
	Lock(ctx context.Context) (election.Token, error)
}

// Guarded is an Entry of a store whose transactions can check that the entry leads.
type Guarded interface {
	// Condition returns the check that this entry holds the election, in the form that the
	// store's client uses (Grant.Guard). It does no I/O.
	Condition() any
}

// Holding is the part of the holder. Several goroutines use it.
type Holding interface {
	// Prove asks the store to decide, after a renewal, that the entry is at the head of the
	// queue; if a history is given, it is written in the same decision. ErrConflict means that
	// the history has another version.
	Prove(ctx context.Context, history *History) (Proof, error)
	// Guard calls news whenever a renewal may bring something new, until the context ends. It
	// returns election.ErrLost when the entry is seen to be gone, and another error if the store
	// cannot tell; it is then called again.
	Guard(ctx context.Context, news func()) error
	// Leave gives up the election to the successor, nil for the first in the queue; if a history is
	// given, it is written in the same decision. With ErrConflict (the history has another
	// version, or the successor has gone) and with election.ErrLost nothing has changed.
	Leave(ctx context.Context, history *History, successor *Candidate) error
	// History reads the history of the election.
	History(ctx context.Context) (History, error)
	// Note writes the history if the stored one still has its version.
	Note(ctx context.Context, history History) error
}

// Handing is the part of a holder that chooses its successor.
type Handing interface {
	// Waiters yields the waiters after the holder, the first one first.
	Waiters(ctx context.Context) iter.Seq2[Candidate, error]
	// Nominate tells a waiter that it is chosen. The nomination that it returns has no version.
	Nominate(ctx context.Context, chosen Candidate) (Nomination, error)
	// Answered returns the nomination; if that has a version, only once the stored one may have
	// another, or after some time. It returns election.ErrNoCandidate if the waiter has gone,
	// election.ErrLost if the holder has, and ErrReplaced.
	Answered(ctx context.Context, chosen Candidate, nomination Nomination) (Nomination, error)
	// Promote brings a waiter that is ready to the front of the queue, unless
	// Leave does that.
	Promote(ctx context.Context, chosen Candidate) error
}

// Observer follows one election. One goroutine uses it.
type Observer interface {
	// Look returns the election. If latest is true, the state includes everything that was
	// written before the call; otherwise it may be what one server shows.
	Look(ctx context.Context, latest bool) (Sight, error)
	// Wait returns when the election may have changed since the latest successful Look, or after
	// some time. An error means that the store cannot tell.
	Wait(ctx context.Context) error
}

// Lease is how long the store keeps an entry that is not renewed.
type Lease struct {
	// Sent is an instant not later than the sending of the request for the lease.
	Sent clock.Instant
	// Length counts from Sent. Zero means that the store's client itself renews the lease and
	// repeats requests.
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

// Place is what a waiter sees of its own entry.
type Place struct {
	Standing Standing
	// Token is that of the leadership, for an entry at the head. Zero means that the lock must be
	// taken: the entry is a Locker.
	Token election.Token
	// Nomination is the latest nomination of this entry; the zero value for none.
	Nomination Nomination
}

// Nomination is the holder's choice of a successor.
type Nomination struct {
	// Round differs between any two nominations of one entry; empty for none.
	Round string
	State State
	// Error is why the waiter could not warm up.
	Error string
	// Version is the version at which the store has shown it.
	Version uint64
}

// State is how far a nominated waiter has got.
type State string

// The states of a nominee.
const (
	Nominated State = ""
	Ready     State = "ready"
	Failed    State = "failed"
)

// Proof is what the store says about a leadership.
type Proof struct {
	// Lease is the one proved, zero if that is the renewal's.
	Lease
	// Request is the pending request to a leader of this election, nil for none.
	Request *election.Request
	// Rival is the id of the waiter that outranks the holder, empty for none.
	Rival string
	// Version is that of the history that was written with it.
	Version uint64
}

// History is the latest leaderships of an election, and the version that the list has in the
// store.
type History struct {
	Tenures []election.Tenure
	Version uint64
}

// Candidate is an entry of the queue as others see it.
type Candidate struct {
	ID       string
	Priority int
	// Key names the entry in the store, and Owner what the entry disappears with, as far as the
	// store needs it. Created distinguishes entries of one key.
	Key, Owner string
	Created    uint64
	// Metadata is what the candidate says about itself. Observers see it; a holder that looks at
	// its waiters need not.
	Metadata []byte
	// Foreign: the candidate is of another client library, which knows nothing of hand-overs.
	Foreign bool
}

// Holder is the candidate that leads.
type Holder struct {
	Candidate
	Token election.Token
	// Since is zero if only the history tells it.
	Since time.Time
}

// Sight is an election as the store shows it.
type Sight struct {
	// Holder has no token if nobody leads.
	Holder Holder
	// Waiting are the others, the first one first.
	Waiting []Candidate
	History []election.Tenure
}
