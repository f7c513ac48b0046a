package election

import (
	"context"
	"fmt"
	"iter"
	"os"
	"time"

	"github.com/conclave-project/conclave/clock"
)

// Token is a fencing token. Within one election, every leadership has a higher token than all
// earlier ones, for the whole life of the election, across crashes and restarts of the store.
// Guarantees.Token says what happens when the store is restored from an older copy. Zero is not a
// token.
type Token uint64

// Backend is the store that an Elector uses: it grants an election to one claim at a time.
// Implementations are safe for use by several goroutines and several Electors at once, and pass
// package electiontest. They return soon after their context has ended.
type Backend interface {
	// Traits says what this backend promises. It does no I/O.
	Traits() Traits

	// Acquire waits until the claim is granted. It returns an error only if the claim could not
	// stay queued. After an error the claim may still be in the store, granted or waiting,
	// because an answer was lost. So the Elector calls Release with the bare claim before it
	// tries again.
	Acquire(ctx context.Context, claim Claim) (Grant, error)

	// Renew asks the store to prove that the grant holds, and to hold it for another lease. It
	// makes one attempt. ErrLost means that the store refused; any other error means that the
	// outcome is unknown.
	Renew(ctx context.Context, grant Grant) (Grant, error)

	// Release ends the claim, whether granted, waiting or unknown to the store. It may be called
	// again after any error, and never touches a grant of another claim. It returns nil only once
	// the store holds nothing of this claim. The Elector stops trying after some seconds, or at
	// once if the error matches ErrClosed; the backend then removes the claim when it can, or the
	// claim expires.
	Release(ctx context.Context, grant Grant) error

	// Observe yields the current View and then each one that differs, until the context ends or
	// the caller leaves the loop. An error means that the election cannot be seen now; the View
	// that comes with it is the last one known. After an error Observe continues as soon as it
	// can.
	Observe(ctx context.Context, election string) iter.Seq2[View, error]
}

// Traits is what a backend promises.
type Traits struct {
	// Name is the name of the backend in messages and in the docs.
	Name string
	// Exclusive: there are never two grants of one election at a time. A backend without this
	// property (an algorithm that may elect two leaders under a partition) says so here and in
	// its documentation.
	Exclusive bool
	// Expires: a holder that is frozen or partitioned loses its grant when its lease runs out.
	// Without it the grant lasts as long as the process.
	Expires bool
	// Waiters: a View shows the waiting candidates, and Grant.Rival a waiter that outranks the
	// holder, within the limits that the backend's documentation states.
	Waiters bool
	// LeaseMin is the shortest lease that makes sense.
	LeaseMin time.Duration
	// Guarantees helps people to choose a backend.
	Guarantees Guarantees
}

// Guarantees describes what a backend depends on. The table of backends in the documentation is
// generated from these texts.
type Guarantees struct {
	// Failover: what a failover of the store does to the promises.
	Failover string
	// Clocks: which clocks must run at which rate for Exclusive to hold.
	Clocks string
	// Token: where the fencing token comes from, and when it could go backwards.
	Token string
	// Renewal and Waiting: what one renewal and one waiting candidate cost.
	Renewal, Waiting string
	// Notice: how a candidate learns that the leader is gone: "watch", or "poll" and how often.
	Notice string
}

// Claim is one attempt of one candidate.
type Claim struct {
	// Election is the name of the election; ValidateName accepts it.
	Election string
	// ID names the candidate to people. Two candidates may share it.
	ID string
	// Nonce is 32 random hexadecimal digits, different in every attempt. It identifies to a
	// backend what this attempt has written.
	Nonce string
	// Lease is the lease that the candidate asks for.
	Lease time.Duration
	// Priority is how much this candidate is preferred, 0 to 1000.
	Priority int
	// Metadata is what the candidate says about itself, for a View to show: any bytes, up to
	// MetadataMax. It stays the same for the life of the claim, and must not be modified.
	Metadata []byte
	// Warm makes this candidate ready to lead. A backend calls it when the claim is nominated
	// (see Nominator), in a goroutine that nothing waits for, and informs the holder once it has
	// returned nil. A second call waits for the first to return; both end when Acquire does. With
	// a nil Warm the candidate is ready at once.
	Warm func(context.Context) error
}

// Grant is the store's answer that a claim leads.
type Grant struct {
	Claim Claim
	// Token is higher than that of every earlier grant of this election. In a Grant passed to
	// Release it may be zero: the claim never got an answer.
	Token Token
	// Sent is an instant not later than the sending of the request that proves the grant.
	Sent clock.Instant
	// Lease is how long the store keeps others out, counted from Sent. It may be shorter or
	// longer than the lease asked for.
	Lease time.Duration
	// Lost is closed when the backend learns, without being asked, that the
	// grant is gone. It may be nil.
	Lost <-chan struct{}
	// Rival is the waiter that the backend would nominate: the one with the highest priority, if
	// that is higher than the claim's. Empty if there is none, or if the backend does not know.
	Rival string
	// Request is what an operator has asked this leadership to do, nil for nothing. A backend
	// repeats it until the grant is released.
	Request *Request
	// News receives a value when a renewal would return a new Request or Rival; the Elector then
	// renews at once. It may be nil.
	News <-chan struct{}
	// Ended is the reason for which the grant is released. It is set in a Grant passed to Release
	// after a leadership, and is only for the history.
	Ended Reason
	// Files keep the grant for as long as any process has them open. A process that must not
	// outlive the leadership inherits them. May be empty.
	Files []*os.File
	// Guard makes a transaction in the store fail once the grant is gone. Its type is the
	// backend's own; nil if the store has no such feature. The function Fence of the backend's
	// package returns it from a Leadership.
	Guard any
}

// Nominator is a Backend that can hand over a grant to a chosen candidate.
type Nominator interface {
	// Nominate chooses the waiter with this id to lead next, lets it warm up, and returns nil when
	// the waiter has reported that it is ready. From then on, releasing the grant, and nothing
	// else, elects this waiter before all others if it still waits. A later Nominate replaces the
	// choice. ErrNoCandidate means that no waiter has this id. If the candidate could not warm up,
	// Nominate returns an error, and the candidate keeps its place in the queue.
	Nominate(ctx context.Context, grant Grant, id string) error
}

// Operator is a Backend that takes requests from operators.
type Operator interface {
	// Elections returns the names of the elections that the store knows, sorted, including those
	// without a leader.
	Elections(ctx context.Context) ([]string, error)
	// History returns the latest leaderships of an election, oldest first: at least the last
	// HistoryMin, or all if there were fewer.
	History(ctx context.Context, election string) ([]Tenure, error)
	// Ask leaves a request for the current leader. ErrNoLeader means that there is none. There is
	// space for one request, and a later request takes it (Request.Replaces): it may displace a
	// transfer that the leader has not seen yet, but not a request to resign. ErrResigning means
	// that a request to resign is pending and this request asks for a transfer.
	Ask(ctx context.Context, election string, request Request) error
}

// HistoryMin is the minimum number of leaderships that an Operator remembers.
const HistoryMin = 16

// Request is what an operator asks of a leader.
type Request struct {
	// Transfer is the id of the candidate that is to lead next; empty asks the leader to resign.
	Transfer string `json:"transfer,omitempty"`
	// Token identifies the leadership that is asked; zero is the current one.
	Token Token `json:"token"`
	// By says who asks, for people to read.
	By string `json:"by,omitempty"`
	// ID is random and distinguishes requests: a leader carries out each one once. Ask sets it if
	// it is empty, so asking again makes a new request.
	ID string `json:"id,omitempty"`
}

// WithID returns the request with an ID. A backend's Ask calls it first.
func (r Request) WithID() Request {
	if r.ID == "" {
		r.ID = newNonce()[:16]
	}
	return r
}

// Replaces returns nil if the request may take the place of the pending request standing, which
// is nil if there is none; both carry the token of the leadership that is asked. A request to
// resign stays until that leadership is over, and only another request to resign replaces it: any
// other one gets an error that matches ErrResigning. A backend's Ask calls Replaces.
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
	// Since and Until are times by the wall clock of the candidate that wrote them, only for
	// people. Until is zero while the leadership lasts.
	Since time.Time `json:"since"`
	Until time.Time `json:"until,omitzero"`
	// Reason is why it ended: a Reason as text, or "expired" for a leadership that was never
	// released because its holder was killed, partitioned or frozen.
	Reason string `json:"reason,omitempty"`
}

// View is what an observer sees of an election.
type View struct {
	Election string
	// Leader is the id of the candidate that leads, empty when none does.
	Leader string
	// Token is the token of the leader, or of the last one.
	Token Token
	// Since is when the leader was elected, by the wall clock of the candidate that wrote it,
	// only for people. Zero if there is no leader.
	Since time.Time
	// Metadata is what the leader says about itself (Options.Metadata); empty for nothing, and
	// for a candidate of another client library. It must not be modified.
	Metadata []byte
	// Unconfirmed means that the store keeps no time, and that this process has not yet seen any
	// proof that the leader lives: it may have died long ago. Its next renewal will tell, or the
	// end of its lease as measured by this process.
	Unconfirmed bool
	// Waiters are the waiting candidates, next one first if the backend knows an order. The
	// leader is not among them.
	Waiters []Waiter
	// Err is not nil if the election cannot be seen now. The other fields are then the last known
	// ones.
	Err error
}
