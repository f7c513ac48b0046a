// Package zookeeper elects on Conclave or Apache ZooKeeper.
//
// In goes a list of servers; every election is a queue of ephemeral sequential
// znodes, one for each candidate, whose data is the candidate's id:
//
//	/conclave/elections/billing%2Fnightly/
//	    _c_<nonce of the claim>-p0-latch-0000000017    leads
//	    _c_<nonce of the claim>-p0-latch-0000000018    waits for 17 to go
//	    _c_<nonce of the claim>-p5-latch-0000000019    waits for 18 to go, has priority 5
//
// Names and data are such that Curator's LeaderLatch may stand in the same
// queue, and kazoo's Election if its lock is made with
// extra_lock_patterns=["-latch-"]. The data of the election's own znode is its book: who led when, and
// what an operator asks of the leader. What always holds:
//
//	K1  Each candidate watches its predecessor and itself, nobody else: the
//	    death of a leader wakes one candidate, however many there are.
//	K2  The token is the czxid of the candidate's znode. Whoever leads after
//	    another was created after it, so tokens grow.
//	K3  A candidate leads only after a transaction that was decided by a quorum
//	    and found its znode, and after the znode's owner was seen to be its own
//	    session (CURATOR-696): never on a list of children alone.
//	K4  A znode whose create was not answered is found by the nonce in its name,
//	    and used or removed (CURATOR-498).
//	K5  A leader whose znode is deleted is told at once, and finds out by itself
//	    at its next renewal (CURATOR-724).
//	K6  The lease is three quarters of the session timeout, and ends no later
//	    than the transaction proves the session (client.ProvenUntil): a
//	    follower of ZooKeeper tells its leader of signs of life only every half
//	    tick, of the transaction itself too. So it begins before that was sent,
//	    and much before it after a pause of this process. Servers grant no
//	    session shorter than their minSessionTimeout, which then is how long a
//	    handover takes.
//
// Tokens start again if the servers' data is lost or taken back to an older
// copy; no client can notice that.
package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/clock"
	"github.com/conclave-project/conclave/zk"
)

// RootDefault is the znode under which elections are.
const RootDefault = "/conclave/elections"

// Options of a Backend. The zero value is good.
type Options struct {
	// Root is the znode under which elections are, without a slash at the end.
	// Default RootDefault. It is made if it does not exist.
	Root string
	// ACL of the znodes that this backend makes; nil is open to everybody.
	ACL []zk.ACL
	// Client is how sessions are opened: credentials, TLS, timeouts. Its
	// SessionTimeout is that of all elections over this backend; zero is the
	// lease of the claim for which the session is opened. Resume and
	// AllowReadOnly are ignored.
	Client client.Options
}

// Backend is a list of servers, and one session for all its elections, which
// is opened when it is needed and replaced when it was lost.
type Backend struct {
	servers string
	options Options
	clock   clock.Clock
	life    context.Context // ends with Close
	end     context.CancelFunc

	mu     sync.Mutex
	client *client.Client // nil before the first use
	seats  map[string]*seat
	closed bool
	group  sync.WaitGroup // of every goroutine
}

// seat is what is known of a claim from before its create is sent until it is
// released.
type seat struct {
	session *client.Client
	parent  string
	claim   election.Claim
	// spot is nil while it is not known whether the znode was created.
	spot atomic.Pointer[spot]
	// warm says how far the candidate is, once the leader has nominated it.
	warm warmth
	// inOffice are what a leader knows beyond its znode.
	inOffice
	// ctx ends when the seat is left.
	ctx   context.Context
	leave context.CancelFunc
	// clearing starts the background removal once.
	clearing sync.Once
}

// spot is a candidate's znode.
type spot struct {
	path  string
	czxid zk.Zxid
}

// New returns a backend on the servers "host:port,host:port/chroot". It
// connects when it is used.
func New(servers string, options Options) (*Backend, error) {
	if options.Root == "" {
		options.Root = RootDefault
	}
	if err := zk.ValidatePath(options.Root); err != nil || options.Root == "/" {
		return nil, fmt.Errorf("zookeeper: root %q: not a path below \"/\" (%v)", options.Root, err)
	}
	options.Client.Resume, options.Client.AllowReadOnly = nil, false
	b := &Backend{servers: servers, options: options, clock: clock.System(), seats: make(map[string]*seat)}
	b.life, b.end = context.WithCancel(context.Background())
	return b, nil
}

// Close ends the session, which gives everything back.
func (b *Backend) Close() error {
	b.mu.Lock()
	c := b.client
	b.client, b.closed = nil, true
	left := slices.Collect(maps.Values(b.seats))
	b.mu.Unlock()
	b.end()
	for _, s := range left {
		s.leave()
	}
	var err error
	if c != nil {
		err = c.Close()
	}
	b.group.Wait()
	if err != nil {
		return fmt.Errorf("zookeeper: close: %w", err)
	}
	return nil
}

// Traits says: exclusive, with expiry.
func (b *Backend) Traits() election.Traits {
	return election.Traits{Name: "zookeeper", Exclusive: true, Expires: true, Line: true,
		LeaseMin: 100 * time.Millisecond,
		Guarantees: election.Guarantees{
			Failover: "none: every grant is proved by a transaction that a quorum decides",
			Clocks:   "rates of the leading server and the holder within Options.ClockDrift (5 %)",
			Token:    "czxid of the candidate's znode; goes back only if the servers' data is lost or taken back",
			Renewal:  "one transaction of 60 bytes and one read, every quarter of the lease",
			Waiting:  "a session and two watches; one wake-up a handover, however many wait",
			Notice:   "watch",
		}}
}

var errClosed = election.Permanent(errors.New("zookeeper: this backend was closed"))

// session returns a session that is connected, a new one if the last is over.
func (b *Backend) session(ctx context.Context, lease time.Duration) (*client.Client, error) {
	c, err := b.open(lease)
	if err != nil {
		return nil, err
	}
	if err := awaitConnected(ctx, c, max(lease, connectPatience)); err != nil {
		return nil, fmt.Errorf("zookeeper: connect to %s: %w", b.servers, mark(err))
	}
	return c, nil
}

// connectPatience is the least time that servers are given to answer before it
// is told that they do not. The client goes on trying.
const connectPatience = 5 * time.Second

func awaitConnected(ctx context.Context, c *client.Client, patience time.Duration) error {
	states := c.Subscribe()
	defer states.Close()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	var last error
	for {
		select {
		case event, ok := <-states.Events():
			switch {
			case !ok:
				return c.Err()
			case event.State == client.Connected:
				return nil
			case event.Err != nil:
				last = event.Err
			}
		case <-timer.C:
			return fmt.Errorf("no server has answered within %v (%v); is one running there?", patience, last)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (b *Backend) open(lease time.Duration) (*client.Client, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, errClosed
	}
	if old := b.client; old != nil {
		select {
		case <-old.Done():
			b.group.Go(func() { old.Detach() })
		default:
			return old, nil
		}
	}
	options := b.options.Client
	if options.SessionTimeout == 0 {
		options.SessionTimeout = lease
	}
	c, err := client.New(b.servers, options)
	if err != nil {
		return nil, election.Permanent(fmt.Errorf("zookeeper: %w", err))
	}
	b.client = c
	return c, nil
}

// mark gives errors of the store the marks of package election.
func mark(err error) error {
	switch {
	case errors.Is(err, zk.ErrAuthFailed), errors.Is(err, zk.ErrNoAuth), errors.Is(err, zk.ErrInvalidACL):
		return election.Permanent(fmt.Errorf("%w; give credentials that may act below the root of elections", err))
	case errors.Is(err, zk.ErrSessionExpired):
		return fmt.Errorf("%w: %w", election.ErrLost, err)
	}
	return err
}

func (b *Backend) seat(nonce string) *seat {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seats[nonce]
}

func (b *Backend) setSeat(nonce string, s *seat) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s == nil {
		if old := b.seats[nonce]; old != nil {
			old.closeLine()
		}
		delete(b.seats, nonce)
		return
	}
	b.seats[nonce] = s
}
