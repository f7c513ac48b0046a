// Package consul elects on Consul.
//
// In goes a client of Consul; every election is one key that the leader's
// session locks, and a line of keys beside it:
//
//	billing/nightly/.lock                                  locked by who leads
//	conclave/elections/billing%2Fnightly/line/0000/NONCE   a candidate in line
//	conclave/elections/billing%2Fnightly/line/0500/NONCE   one of priority 500
//	conclave/elections/billing%2Fnightly/request           what an operator asks
//	conclave/elections/billing%2Fnightly/history           never removed
//
// The key and its flags are those of api.Lock and of "consul lock
// billing/nightly", which may stand beside our candidates. Those of the line
// are locked by the session of the candidate and go with it.
//
// What always holds:
//
//	C1  Whoever's session locks the key leads, and nobody else; "consul lock"
//	    obeys the same rule. A grant is given and proved by transactions that
//	    were decided by a quorum.
//	C2  The token is the index of the transaction that locked the key: Consul's
//	    own counter of all writes, which grows on when the key is deleted, as
//	    "consul lock" does at its end. (The key's LockIndex starts again then.)
//	C3  The lease is the session's TTL, counted from before the renewal was
//	    sent, and every renewal is sent within a TTL of the one before and
//	    followed by a read by quorum. The servers wait two TTL before they end
//	    a session. The second one is in reserve for a server that was cut off
//	    or frozen, does not know yet that it leads no more, and says yes to a
//	    renewal: whoever leads instead has let all sessions begin anew after
//	    the renewal before. So a leader killed is replaced after up to two TTL.
//	C4  A session hangs on its TTL alone, not on the health of a node: with the
//	    default, gossip about a failed agent ends a session long before its TTL,
//	    while its holder goes on leading.
//	C5  Each candidate waits for its predecessor in line, and only the first for
//	    the key: a hand-over wakes two, however many there are.
//	C6  Release hands the key over to a nominee within one transaction: neither
//	    "consul lock" nor anybody else in line can come between.
//
// The lock-delay keeps a key locked for some time after the session of its
// holder has ended in any other way than by a release. It serves holders that
// cannot know their deadline; ours have stopped before their TTL is over, so
// it is off by default and a hand-over after a death takes no longer than C3
// says. Set it where operators destroy sessions or take nodes out of the
// catalogue: then a leader learns of its loss only as fast as news travel.
//
// The index goes back when the servers' data is lost, or if a snapshot is
// restored into a new cluster.
package consul

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/conclave-project/conclave/election"
)

// LeaseMinDefault is the shortest TTL of a session that servers allow unless
// their session_ttl_min says otherwise.
const LeaseMinDefault = 10 * time.Second

// Options of a Backend. The zero value is good.
type Options struct {
	// Prefix comes before all keys, "services/" for instance. Default none.
	Prefix string
	// LeaseMin is the session_ttl_min of the servers. Default
	// LeaseMinDefault.
	LeaseMin time.Duration
	// LockDelay keeps others out for so long after a session has ended without
	// a release; at most a minute. Default none, which is one millisecond.
	LockDelay time.Duration
}

// Backend elects on one datacenter. It has no state that another Backend there
// would need.
type Backend struct {
	client  *api.Client
	options Options

	mu     sync.Mutex
	seats  map[string]*seat // by nonce, until released
	closed bool
	group  sync.WaitGroup // of every goroutine
}

// New returns a backend on a client. An agent allows one address 200
// connections (limits.http_max_conns_per_client): a candidate in line needs
// one, the first one and the leader two.
func New(client *api.Client, options Options) *Backend {
	if options.LeaseMin == 0 {
		options.LeaseMin = LeaseMinDefault
	}
	options.LockDelay = max(options.LockDelay, time.Millisecond)
	return &Backend{client: client, options: options, seats: make(map[string]*seat)}
}

// closePatience is how long Close tries to give back what is left.
const closePatience = 2 * time.Second

// Close gives back what was not released, and waits for every goroutine.
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

// Traits says: exclusive, with expiry and a line of our own candidates.
func (b *Backend) Traits() election.Traits {
	return election.Traits{
		Name: "consul", Exclusive: true, Expires: true, Line: true, LeaseMin: b.options.LeaseMin,
		Guarantees: election.Guarantees{
			Failover: "none: everything is decided by a quorum; a new leader of Consul lets all sessions begin anew",
			Clocks: "rates only, with a whole TTL in reserve: the servers wait twice as long as the candidate; " +
				"a dead leader is replaced after two leases. The least lease is 10 s unless session_ttl_min " +
				"of the servers says otherwise",
			Token:   "index of the write that locked the key; goes back if the data is lost or restored into a new cluster",
			Renewal: "one renewal, which is no write, one read by quorum and one list of keys",
			Waiting: "one renewal and one read every third of the lease, one or two blocking queries; " +
				"a hand-over wakes two candidates",
			Notice: "watch",
		},
	}
}

var errClosed = election.Permanent(errors.New("this backend was closed"))

func (b *Backend) add(claim election.Claim) (*seat, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, errClosed
	}
	b.sweep()
	s := newSeat(b, claim)
	b.seats[claim.Nonce] = s
	return s, nil
}

// leftLate notes that a release has failed. Whoever asked may ask again; if not,
// the session ends by itself, and then there is nothing left to give back.
func (b *Backend) leftLate(s *seat) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.left == 0 {
		s.left = election.Now()
	}
}

// sweep forgets the seats whose session has ended by itself: nobody renews it,
// and servers end it within twice its TTL. The caller holds the mutex.
func (b *Backend) sweep() {
	now := election.Now()
	maps.DeleteFunc(b.seats, func(_ string, s *seat) bool {
		return s.left != 0 && now.Sub(s.left) > 3*s.claim.Lease
	})
}

func (b *Backend) seat(nonce string) *seat {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seats[nonce]
}

func (b *Backend) forget(nonce string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.seats, nonce)
}

// denied is how Consul begins to say that a token may not do something. The
// client passes it on as the code of an answer or as text only.
const denied = "Permission denied"

// mark gives errors of Consul the marks of package election.
func mark(err error) error {
	var status api.StatusError
	if err == nil {
		return nil
	}
	if errors.As(err, &status) && status.Code == http.StatusForbidden || strings.Contains(err.Error(), denied) {
		return election.Permanent(fmt.Errorf("%w; give a token with session:write and key:write for the "+
			"election's key and those below conclave/elections/", err))
	}
	return err
}
