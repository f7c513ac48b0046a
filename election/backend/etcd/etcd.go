// Package etcd elects on etcd.
//
// In goes a client of etcd; every election is a queue of keys, one for each
// candidate, whose value is the candidate's id and which goes with a lease of
// its own:
//
//	billing/nightly/694d9f2c6d0b5a01    created at revision 17: leads
//	billing/nightly/1c0b9a7734f05e11    created at 23: waits for 17 to go
//
// Keys, values and order are those of the package concurrency of etcd's client
// and of "etcdctl elect billing/nightly ID", which may stand in the same queue.
// What they know nothing of is kept where no election's queue can be, below
// "/conclave/", and goes with the lease too, except for the history. The
// package concurrency is not used: its Campaign does not notice that its own
// lease has gone, and tells a candidate without a key that it leads.
//
// What always holds:
//
//	D1  Whoever has the key of the lowest create revision leads, and nobody
//	    else. All candidates obey this one rule, those of etcdctl too, and no
//	    operation of this package makes an exception.
//	D2  The token is the create revision of the candidate's key. Later leaders
//	    joined later, so tokens grow.
//	D3  A candidate leads only after a transaction that was decided by a quorum
//	    and found its key with that create revision, and nobody before it. One
//	    whose lease died in line is never told that it leads.
//	D4  The number of a claim's lease is made of its nonce: whatever answer was
//	    lost, revoking that lease takes away all there is of the claim, and a
//	    request that is still on its way finds no lease to put a key on.
//	D5  The lease counts from before the keep-alive was sent, for as long as its
//	    answer says. A server of etcd asks the quorum whether it leads before it
//	    extends a lease, and whoever leads after it extends all leases again:
//	    they end later than the candidate thinks, never earlier. (Servers before
//	    3.5.10 do not ask; with them an old leader that is cut off may say yes
//	    to a lease that has ended.)
//	D6  Each candidate watches its predecessor and itself: the death of a leader
//	    wakes one candidate, however many there are.
//	D7  A nominee comes to the head of the line because those before it, if they
//	    are of this package, are sent to the end of it, where they get later
//	    tokens. Candidates of etcdctl cannot be moved: with one of them before
//	    the nominee, Nominate refuses.
//
// The revision starts again if the servers' data is lost, and goes back with a
// snapshot unless it is restored with "etcdutl snapshot restore --bump-revision".
//
// Beware of "etcdctl elect" itself: it takes a key that an operator has deleted
// for its own still, and leads beside others then.
package etcd

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/conclave-project/conclave/election"
)

// Options of a Backend. The zero value is good.
type Options struct {
	// Prefix comes before the name of every election, "services/" for
	// instance. Default none, as "etcdctl elect" has it.
	Prefix string
}

// Backend elects on one cluster. It has no state that another Backend on the
// same cluster would need.
type Backend struct {
	client  *clientv3.Client
	options Options

	mu     sync.Mutex
	seats  map[string]*seat // by nonce, until released
	closed bool
	group  sync.WaitGroup // of every goroutine
}

// New returns a backend on a client, which stays the caller's. The client
// should have DialKeepAliveTime set, or a link that is cut off silently is
// noticed late.
func New(client *clientv3.Client, options Options) *Backend {
	return &Backend{client: client, options: options, seats: make(map[string]*seat)}
}

// closePatience is how long Close tries to give back what is left.
const closePatience = 2 * time.Second

// Close gives back what was not released, and waits for every goroutine. The
// client stays open.
func (b *Backend) Close() error {
	b.mu.Lock()
	left := slices.Collect(maps.Values(b.seats))
	b.closed = true
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	var failed error
	for _, s := range left {
		failed = errors.Join(failed, b.Release(ctx, election.Grant{Claim: s.claim}))
	}
	b.group.Wait()
	return failed
}

// leaseMin is the shortest lease that a server with the default election
// timeout of one second grants.
const leaseMin = 2 * time.Second

// Traits says: exclusive, with expiry and a line.
func (b *Backend) Traits() election.Traits {
	return election.Traits{
		Name: "etcd", Exclusive: true, Expires: true, Line: true, LeaseMin: leaseMin,
		Guarantees: election.Guarantees{
			Failover: "none: everything is decided by a quorum; a new leader of etcd extends all leases",
			Clocks:   "rates only: the candidate's and that of the server that leads, while it leads",
			Token: "create revision of the candidate's key; goes back if the data is lost or restored " +
				"without --bump-revision",
			Renewal: "one keep-alive and one read by quorum, no write",
			Waiting: "the same every third of the lease, and two watches; a hand-over wakes one candidate",
			Notice:  "watch",
		},
	}
}

// leaseID makes the number of a claim's lease out of its nonce (D4): 63 bits
// that nobody else has, not zero.
func leaseID(nonce string) clientv3.LeaseID {
	sum := sha256.Sum256([]byte(nonce))
	return clientv3.LeaseID(max(1, binary.BigEndian.Uint64(sum[:])>>1))
}

var errClosed = election.Permanent(errors.New("this backend was closed"))

// add makes the seat of a claim.
func (b *Backend) add(claim election.Claim) (*seat, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, errClosed
	}
	s := newSeat(claim, b.candidate(claim.Election, leaseID(claim.Nonce)))
	b.seats[claim.Nonce] = s
	return s, nil
}

func (b *Backend) seat(nonce string) *seat {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seats[nonce]
}

// take returns the seat of a claim, nil for none, and forgets it.
func (b *Backend) take(nonce string) *seat {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.seats[nonce]
	delete(b.seats, nonce)
	return s
}

// mark gives errors of etcd the marks of package election.
func mark(err error) error {
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return fmt.Errorf("%w: %w", election.ErrLost, err)
	case errors.Is(err, rpctypes.ErrPermissionDenied), errors.Is(err, rpctypes.ErrUserEmpty),
		errors.Is(err, rpctypes.ErrAuthFailed):
		return election.Permanent(fmt.Errorf("%w; give credentials of a user who may read and write the "+
			"election's keys and those below /conclave/", err))
	case errors.Is(err, rpctypes.ErrNoSpace):
		return fmt.Errorf("%w: %w; nobody new can join; compact and defragment, then disarm the alarm",
			election.ErrNoSpace, err)
	}
	return err
}
