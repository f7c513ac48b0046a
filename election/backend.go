package election

import (
	"context"
	"fmt"
	"iter"
	"os"
	"time"

	"github.com/conclave-project/conclave/clock"
)

// Token is a fencing token. Within one election every leadership has a higher
// token than all before it, for the whole life of the election, across crashes
// and restarts of the store; what becomes of it when the store is restored from
// an older copy, Guarantees.Token says. Zero is no token.
type Token uint64

// Backend is what an Elector rests on: a store that grants an election to one
// claim at a time. Implementations are safe for use by several goroutines and
// several Electors at once, and pass package electiontest. They return soon
// after their context has ended.
type Backend interface {
	// Traits says what this backend promises. It does no I/O.
	Traits() Traits

	// Acquire waits until the claim is granted. It returns an error
	// only when it could not stay queued. An error may leave the claim
	// behind, granted or waiting, because its answer was lost: the Elector
	// then calls Release with the bare claim before it tries again.
	Acquire(ctx context.Context, claim Claim) (Grant, error)

	// Renew asks the store to prove that the grant holds, and to hold it for
	// another lease. It makes one attempt. ErrLost means that the store said
	// no; any other error means that nothing is known.
	Renew(ctx context.Context, grant Grant) (Grant, error)

	// Release ends the claim, whether granted, waiting or unknown to
	// the store. It may be called again after any error, and never touches a
	// grant of another claim. Only a store that holds nothing of this claim
	// any more lets it return nil. The Elector gives up after some seconds, and
	// at once where Release matches ErrClosed; the backend sees to it that the claim
	// goes when it can, or expires.
	Release(ctx context.Context, grant Grant) error

	// Observe yields the present View and then each one that differs, until
	// the context ends or the range does. An error says that the election
	// cannot be seen now; the View beside it is the last one known. After an
	// error Observe goes on when it can.
	Observe(ctx context.Context, election string) iter.Seq2[View, error]
}

// Traits is what a backend promises.
type Traits struct {
	// Name is the name of the backend in messages and in the docs.
	Name string
	// Exclusive: never two grants of one election at a time. A backend
	// without it (an algorithm that may elect two under a partition) says so
	// here and in its documentation.
	Exclusive bool
	// Expires: a holder that is frozen or partitioned loses its grant when its
	// lease has passed. Without it the grant lasts as long as the process.
	Expires bool
	// Waiters: a View shows the candidates that wait, and Grant.Rival those that
	// outrank the holder, both as far as the backend's documentation says.
	Waiters bool
	// LeaseMin is the shortest lease that makes sense.
	LeaseMin time.Duration
	// Guarantees is what people read before they choose a backend.
	Guarantees Guarantees
}

// Guarantees describes what a backend rests on. The table of backends in
// the documentation is made of them.
type Guarantees struct {
	// Failover: what a failover of the store does to the promises.
	Failover string
	// Clocks: which clocks must keep which pace for Exclusive to hold.
	Clocks string
	// Token: where the fencing token comes from, and when it could go back.
	Token string
	// Renewal and Waiting: what one renewal and one waiting candidate cost.
	Renewal, Waiting string
	// Notice: how a candidate learns that the leader is gone, "watch" or
	// "poll" and how often.
	Notice string
}

// Claim is one attempt of one candidate.
type Claim struct {
	// Election is the name of the election; ValidateName accepts it.
	Election string
	// ID names the candidate to people. Two candidates may share it.
	ID string
	// Nonce is random, of 32 hexadecimal digits, and differs between any two
	// attempts: by it a backend knows what it made itself.
	Nonce string
	// Lease is the lease that the candidate asks for.
	Lease time.Duration
	// Priority is how much this candidate is preferred, 0 to 1000.
	Priority int
	// Metadata is what the candidate says of itself, for a View to show: any bytes, up
	// to MetadataMax. It is the same for the whole of the claim, and must not be
	// changed.
	Metadata []byte
	// Warm, if not nil, makes this candidate ready to lead; a backend calls it
	// when the claim is nominated (see Nominator), in a goroutine that nothing
	// waits for, and tells the holder when it has returned nil. A call while
	// another runs waits for its turn; both end with Acquire. Nil is ready at
	// once.
	Warm func(context.Context) error
}

// Grant is the store's answer that a claim leads.
type Grant struct {
	Claim Claim
	// Token is higher than that of every earlier grant of this election. In
	// a Grant given to Release it may be zero: the claim never got an answer.
	Token Token
	// Sent is the instant before which the request that proves the grant had
	// not been sent.
	Sent clock.Instant
	// Lease is for how long, counted from Sent, the store keeps others out.
	// It may be shorter or longer than the one asked for.
	Lease time.Duration
	// Lost is closed when the backend learns, without being asked, that the
	// grant is gone. It may be nil.
	Lost <-chan struct{}
	// Rival is the waiter that the backend would nominate: the one
	// of the highest priority above that of the claim. Empty when there is
	// none, or when the backend cannot tell.
	Rival string
	// Request is what an operator has asked of this leadership, nil for
	// nothing. A backend repeats it until the grant is released.
	Request *Request
	// News receives when a renewal would bring news, a Request or a Rival; the
	// Elector then renews at once. It may be nil.
	News <-chan struct{}
	// Ended is why the grant is released, set in a Grant given to Release
	// after a leadership; for the history only.
	Ended Reason
	// Files keep the grant as long as anybody has them open. A process that
	// must not outlive the leadership inherits them. May be empty.
	Files []*os.File
	// Guard is what makes a transaction in the store fail once the grant is gone, of a
	// type of the backend's own; nil where the store has none. The backend's package
	// has a function Fence that takes it out of a Leadership.
	Guard any
}

// Nominator is a Backend that can hand a grant over to a chosen candidate.
type Nominator interface {
	// Nominate chooses the waiter with this id to lead next, lets
	// it warm up, and returns nil when it has said that it is ready. From then
	// on Release of the grant, and nothing else, elects it before all others,
	// if it is still waiting. A later Nominate replaces it. ErrNoCandidate:
	// no waiter has this id. A candidate that could not warm up is
	// an error too, and stays queued as it was.
	Nominate(ctx context.Context, grant Grant, id string) error
}

// Operator is a Backend that answers operators.
type Operator interface {
	// Elections returns the names of the elections that the store knows, in
	// order, those without a leader included.
	Elections(ctx context.Context) ([]string, error)
	// History returns the latest leaderships of an election, oldest first, at
	// least the last HistoryMin as far as there were so many.
	History(ctx context.Context, election string) ([]Tenure, error)
	// Ask leaves a request for the present leader. ErrNoLeader: there is none. There is
	// one place for requests, and a later one takes it (Request.Replaces): a transfer
	// that the leader has not seen yet may be dropped for it, a request to resign may not.
	// ErrResigning: such a one stands, and this one is for a transfer.
	Ask(ctx context.Context, election string, request Request) error
}

// HistoryMin is how many leaderships an Operator remembers at least.
const HistoryMin = 16

// Request is what an operator asks of a leader.
type Request struct {
	// Transfer is the id of the candidate that shall lead next; empty asks the
	// leader to resign.
	Transfer string `json:"transfer,omitempty"`
	// Token is the leadership that is asked; zero is the present one.
	Token Token `json:"token"`
	// By says to people who asks.
	By string `json:"by,omitempty"`
	// ID is random and tells requests apart: a leader honours each one once. Ask
	// gives a request one that has none, so that asking again is a new request.
	ID string `json:"id,omitempty"`
}

// WithID returns the request with an ID. A backend's Ask calls it first.
func (r Request) WithID() Request {
	if r.ID == "" {
		r.ID = newNonce()[:16]
	}
	return r
}

// Replaces reports whether the request may take the place of the one that stands there, nil
// for none; both carry the token of the leadership that is asked. One to resign stands
// until that is over, and is replaced by its like alone, which asks for the same. The error
// matches ErrResigning. A backend's Ask calls it.
func (r Request) Replaces(standing *Request) error {
	if standing == nil || standing.Token != r.Token || standing.Transfer != "" || r.Transfer == "" {
		return nil
	}
	if standing.By != "" {
		return fmt.Errorf("%w, by %s", ErrResigning, standing.By)
	}
	return ErrResigning
}

// Tenure is one leadership in the history of an election.
type Tenure struct {
	Leader string `json:"leader"`
	Token  Token  `json:"token"`
	// Since and Until are wall clock times of the candidate that wrote them, for people
	// only. Until is zero while the leadership lasts.
	Since time.Time `json:"since"`
	Until time.Time `json:"until,omitzero"`
	// Reason is why it ended: a Reason as text, and "expired" for one that
	// was never released, whose holder was killed, partitioned or frozen.
	Reason string `json:"reason,omitempty"`
}

// View is what an observer sees of an election.
type View struct {
	Election string
	// Leader is the id of the candidate that leads, empty when none does.
	Leader string
	// Token is the token of the leader, or of the last one.
	Token Token
	// Since is when the leader was elected, by the wall clock of the candidate that
	// wrote it: for people only. Zero when there is no leader.
	Since time.Time
	// Metadata is what the leader says of itself (Options.Metadata); empty for
	// nothing, and for a candidate of another client. It must not be changed.
	Metadata []byte
	// Unconfirmed says that the store keeps no time, and that nothing which this
	// process has seen of it yet shows whether the leader lives: it may have died long
	// before. The end of its lease tells, as seen from here, or its next renewal.
	Unconfirmed bool
	// Waiters are the candidates that wait, next one first, as far as the
	// backend knows an order. The leader is not among them.
	Waiters []Waiter
	// Err is not nil when the election cannot be seen now. The rest is then
	// the last that was known.
	Err error
}
