// Package zookeeper elects on Conclave or Apache ZooKeeper.
//
// New takes a list of servers. Every election is a queue of ephemeral sequential znodes, one for
// each candidate, whose data is the candidate's id:
//
//	/conclave/elections/billing%2Fnightly/
//	    _c_<nonce of the claim>-p0-latch-0000000017    leads
//	    _c_<nonce of the claim>-p0-latch-0000000018    waits for 17 to go
//	    _c_<nonce of the claim>-p5-latch-0000000019    waits for 18 to go, has priority 5
//
// A candidate's metadata follows its id in the data, after two line breaks; Curator and kazoo
// then take both for the id. Names and data are chosen so that Curator's LeaderLatch may join the
// same queue, and kazoo's Election if its lock is made with extra_lock_patterns=["-latch-"]. The
// data of the election's own znode is its record: who led when, and what an operator asks of the
// leader. How candidates wait, lead and hand over is in election/queue. What always holds:
//
//	zookeeper-K1  Each candidate watches only its predecessor and itself: the death of a leader
//	              wakes one candidate, however many there are.
//	zookeeper-K2  The token is the czxid of the candidate's znode. A later leader's znode was
//	              created later, so tokens grow.
//	zookeeper-K3  A candidate leads only after a transaction, decided by a quorum, has found its
//	              znode, and after the znode's owner was seen to be its own session (CURATOR-696):
//	              never because of a list of children alone.
//	zookeeper-K4  A znode whose create was not answered is found by the nonce in
//	              its name, and used or removed (CURATOR-498).
//	zookeeper-K5  A leader whose znode is deleted learns of it at once, and
//	              finds out by itself at its next renewal (CURATOR-724).
//	zookeeper-K6  The lease is three quarters of the session timeout. It ends no later than a
//	              fiftieth of the timeout before the transaction ceases to prove the session
//	              (client.ProvenUntil), because the clocks drift during all that time. A ZooKeeper
//	              follower reports heartbeats, including the transaction itself, to its leader
//	              only every half tick. So the lease begins before the transaction was sent, and
//	              long before it after a pause of this process. Servers grant no session shorter
//	              than their minSessionTimeout, which then is how long a hand-over takes. A
//	              leadership lasts if the lease has 35 round trips to the servers: 2 s where one
//	              takes 40 ms, 4 s for 120 (on virtual time). With less it ends soon, and another
//	              one begins. Two ticks are the least that Apache's servers may be told there:
//	              their leader does not take a forwarded transaction for a heartbeat, so that in a
//	              shorter session it proves nothing within the lease.
//	zookeeper-K7  A server that is silent is left after a quarter of the session timeout
//	              (client.Options.LeaveSoon). ZooKeeper's client takes two thirds, and by then the
//	              leaders that are connected to a server that has frozen have stopped leading.
//
// Tokens start again if the servers' data is lost or taken back to an older
// copy; no client can notice that.
package zookeeper

import (
	"context"
	"fmt"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/queue"
	"github.com/conclave-project/conclave/internal/eventqueue"
	"github.com/conclave-project/conclave/zk"
)

// RootDefault is the default znode under which elections are kept.
const RootDefault = "/conclave/elections"

// Options of a backend. The zero value is ready to use.
type Options struct {
	// Root is the znode under which elections are kept, without a slash at the end. Default
	// RootDefault. It is created if it does not exist.
	Root string
	// ACL is that of the znodes that this backend creates; nil means open to everybody.
	ACL []zk.ACL
	// Client holds the options of the sessions: credentials, TLS, timeouts. SessionTimeout
	// applies to all elections over this backend; zero means the lease of the claim for which the
	// session is opened. Resume, AllowReadOnly, RetryFor and LeaveSoon are ignored. OnEvent is called by one
	// goroutine, including for requests; up to 1024 events wait, and those dropped are counted in
	// Event.Missed. Clock is also that of the backend, and must be that of the Electors.
	Client client.Options
}

// New returns a backend on the servers "host:port,host:port/chroot". It has one session for all
// its elections, which it opens when it is needed and replaces if it was lost.
func New(servers string, options Options) (*queue.Backend, error) {
	s, err := newStore(servers, options)
	if err != nil {
		return nil, err
	}
	return queue.New(s, queue.Options{Close: s.close, Clock: s.options.Client.Clock}), nil
}

func newStore(servers string, options Options) (*store, error) {
	if options.Root == "" {
		options.Root = RootDefault
	}
	if err := zk.ValidatePath(options.Root); err != nil || options.Root == "/" {
		return nil, fmt.Errorf("zookeeper: root %q: not a path below \"/\" (%v)", options.Root, err)
	}
	if onEvent := options.Client.OnEvent; onEvent != nil {
		// Close of a client waits for OnEvent to return. A queue keeps a blocked OnEvent
		// from delaying Close of the backend.
		options.Client.OnEvent = eventqueue.New(onEvent, func(e *client.Event) *int { return &e.Missed }).Put
	}
	if options.Client.Clock == nil {
		options.Client.Clock = clock.System()
	}
	options.Client.Resume, options.Client.AllowReadOnly, options.Client.RetryFor = nil, false, 0
	options.Client.LeaveSoon = true // zookeeper-K7
	s := &store{servers: servers, options: options}
	s.life, s.end = context.WithCancel(context.Background())
	return s, nil
}

// close ends the session, which releases everything. A session whose grants are still in
// use is left to expire instead.
func (s *store) close(used bool) error {
	s.mu.Lock()
	c, looking := s.client, s.looking
	s.client, s.looking, s.closed = nil, nil, true
	s.mu.Unlock()
	s.end()
	if looking != nil {
		s.group.Go(func() { looking.Close() })
	}
	var err error
	switch {
	case c == nil:
	case used:
		c.Detach()
	default:
		err = c.Close()
	}
	s.group.Wait()
	return err
}

// session returns a connected session for a claim; a new one if the last one is over.
func (s *store) session(ctx context.Context, lease time.Duration) (*client.Client, error) {
	c, err := s.open(lease, true)
	if err != nil {
		return nil, err
	}
	return s.connected(ctx, c, lease)
}

// lookingSession returns a session for an observer: that of the claims if there is one.
func (s *store) lookingSession(ctx context.Context) (*client.Client, error) {
	c, err := s.open(observeLease, false)
	if err != nil {
		return nil, err
	}
	return s.connected(ctx, c, observeLease)
}

// connected waits until a session is connected.
func (s *store) connected(ctx context.Context, c *client.Client, lease time.Duration) (*client.Client, error) {
	patience := max(lease, connectPatience)
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	switch err := c.WaitConnected(within); {
	case err == nil:
		return c, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("connect to %s: %w", s.servers, context.Cause(ctx))
	case within.Err() != nil:
		return nil, fmt.Errorf("connect to %s: no server has answered within %v: %v; is one running there?", s.servers, patience, err)
	default:
		return nil, fmt.Errorf("connect to %s: %w", s.servers, err)
	}
}

// connectPatience is the least time that servers have to answer before an error says that
// they do not. The client continues to try.
const connectPatience = 5 * time.Second

// look counts an observer until the returned function is called.
func (s *store) look() (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.looks--
		s.endLooking()
	}
}

// endLooking ends a session that was opened for observers, when there are none left or the
// claims have a session of their own. The caller holds mu.
func (s *store) endLooking() {
	if c := s.looking; c != nil && s.client != nil && s.looks == 0 {
		s.looking = nil
		s.group.Go(func() { c.Close() })
	}
}

// open returns the session of the claims, or a new one if the last is over. An observer may
// use any session. A claim needs one with its own lease, so not one that was opened for
// observers.
func (s *store) open(lease time.Duration, claim bool) (*client.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	s.client, s.looking = s.unlessOver(s.client), s.unlessOver(s.looking)
	options := s.options.Client
	switch {
	case s.client != nil:
		return s.client, nil
	case s.looking != nil && !claim:
		return s.looking, nil
	case s.looking != nil && (options.SessionTimeout != 0 || lease == observeLease):
		s.client, s.looking = s.looking, nil
		return s.client, nil
	}
	if options.SessionTimeout == 0 {
		options.SessionTimeout = lease
	}
	c, err := client.New(s.servers, options)
	if err != nil {
		return nil, election.Permanent(err)
	}
	if claim {
		s.client = c
		s.endLooking()
	} else {
		s.looking = c
	}
	return c, nil
}

// unlessOver returns a session, nil if it is over. The caller holds mu.
func (s *store) unlessOver(c *client.Client) *client.Client {
	if c == nil {
		return nil
	}
	select {
	case <-c.Done():
		s.group.Go(func() { c.Detach() })
		return nil
	default:
		return c
	}
}
