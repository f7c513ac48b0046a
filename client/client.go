package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/clientsession"
	"github.com/conclave-project/conclave/internal/eventqueue"
	"github.com/conclave-project/conclave/internal/names"
	"github.com/conclave-project/conclave/zk"
)

// Client is one session with an ensemble. All methods may be called by several
// goroutines at once.
type Client struct {
	options Options
	chroot  string
	clock   clock.Clock

	// mu guards all fields below, and is never held during I/O.
	mu          sync.Mutex
	machine     *clientsession.Machine
	event       clientsession.Event // of the current step
	servers     []string            // as the program wrote them
	names       map[string]string   // by address, as of the last look-up; for TLS
	link        *link               // the connection that is being made or used
	timerMs     int64               // when the timer goroutine wakes
	space       chan struct{}       // closed when there is space for another request; nil if nobody waits
	lost        chan struct{}       // closed when the server is lost; nil if nobody waits
	subscribers []*Subscription
	untold      []Event                  // for Options.OnEvent
	missed      int                      // events that were dropped from untold
	requests    *eventqueue.Queue[Event] // for Options.OnEvent; nil without one
	err         error                    // why the session has ended
	cause       error                    // why the last attempt to reach a server has failed

	kick   chan struct{} // capacity 1: the timer must be set again
	done   chan struct{} // closed at the session's end
	book   *names.Book
	ctx    context.Context
	cancel context.CancelFunc // ends dials and look-ups
	group  sync.WaitGroup     // every goroutine of this client

	work    context.Context // the context of functions that Go runs
	endWork context.CancelFunc
	workers sync.WaitGroup // the goroutines of those functions
	closing sync.Once
	proving chan struct{} // holds an element while a proof is being made
	calls   sync.Pool     // of *call
	toTell  chan struct{} // capacity 1: untold is not empty
}

// New starts a session with the servers of "host:port,host:port/chroot" and returns at once;
// requests wait until a server is reached. Paths are accepted and returned relative to the
// chroot, which must exist before anything is created in it.
func New(servers string, o Options) (*Client, error) {
	list, chroot, err := parseServers(servers)
	if err != nil {
		return nil, err
	}
	o = o.withDefaults()
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	config := clientsession.Config{
		TimeoutMs:    int32(min(o.SessionTimeout.Milliseconds(), 1<<31-1)),
		ReadOnly:     o.AllowReadOnly,
		LeaveSoon:    o.LeaveSoon,
		Seed:         o.Seed,
		BackoffMinMs: o.BackoffMin.Milliseconds(),
		BackoffMaxMs: o.BackoffMax.Milliseconds(),
		ConnectMs:    o.ConnectTimeout.Milliseconds(),

		RearmBytesMax: min(rearmBytesMax, max(1, o.RequestBytesMax-rearmFixedBytes)),
	}
	if o.Resume != nil {
		config.Session, config.Password, config.LastZxid = o.Resume.ID, o.Resume.Password, o.Resume.LastZxid
	}
	c := &Client{
		options: o, chroot: chroot, clock: o.Clock, servers: list,
		machine: clientsession.New(config, o.Clock.Now().Millis()),
		kick:    make(chan struct{}, 1), done: make(chan struct{}),
		proving: make(chan struct{}, 1), toTell: make(chan struct{}, 1),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.book = names.New(c.ctx, c.options.Resolver.LookupHost)
	c.work, c.endWork = context.WithCancel(c.ctx)
	for _, credential := range o.Auth {
		c.submit(c.newCall(authRequest(credential), nil))
	}
	c.group.Go(c.keepTime)
	if o.OnEvent != nil {
		c.requests = eventqueue.New(o.OnEvent, func(e *Event) *int { return &e.Missed }).Bounded(requestsMax)
		c.group.Go(c.tellEvents)
	}
	return c, nil
}

// Dial starts a session as New does and waits until a server is reached. If ctx ends first, the
// attempt is given up.
func Dial(ctx context.Context, servers string, o Options) (*Client, error) {
	c, err := New(servers, o)
	if err != nil {
		return nil, err
	}
	if err := c.WaitConnected(ctx); err != nil {
		c.Close()
		return nil, fmt.Errorf("client: connecting to %s: %w", servers, err)
	}
	return c, nil
}

// Go runs f on a goroutine that Close and Detach wait for. The context of f ends with the
// session, or when Close begins: Close ends the session after f has returned, or five seconds
// later. It is for work that belongs to the session, such as removing what an abandoned request
// may have left. f must not call Close or Detach, which wait for it. Once the session has ended,
// or Close or Detach has begun, Go does not run f and returns false.
func (c *Client) Go(f func(context.Context)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.work.Err() != nil {
		return false
	}
	c.workers.Go(func() { f(c.work) })
	return true
}

// stopWork ends the functions that Go runs, and waits for them. After the session has
// ended, Detach does that.
func (c *Client) stopWork(ctx context.Context) {
	stopped := make(chan struct{})
	c.mu.Lock()
	c.endWork()
	ended := c.err != nil
	if !ended { // and nothing waits for group yet
		c.group.Go(func() {
			c.workers.Wait()
			close(stopped)
		})
	}
	c.mu.Unlock()
	if ended {
		return
	}
	select {
	case <-stopped:
	case <-ctx.Done():
	}
}

// WaitConnected waits until the session is attached to a server. It returns the session's error
// if the session has ended, or the context's error together with why the last attempt to reach a
// server failed.
func (c *Client) WaitConnected(ctx context.Context) error {
	s := c.Subscribe()
	defer s.Close()
	for {
		select {
		case event, ok := <-s.Events():
			if !ok {
				return c.Err()
			}
			if event.State == Connected || event.State == ReadOnly {
				return nil
			}
		case <-ctx.Done():
			return c.withCause(ctx.Err())
		}
	}
}

// withCause adds to err why the last attempt to reach a server failed, if one did.
func (c *Client) withCause(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause == nil {
		return err
	}
	return fmt.Errorf("%w (last attempt: %w)", err, c.cause)
}

// Done is closed when the session has ended: lost, refused or closed.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err returns why the session has ended: zk.ErrSessionExpired, zk.ErrAuthFailed or zk.ErrClosing.
// It is nil while the session may live.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// State returns the current state of the session. Use Subscribe to follow it.
func (c *Client) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return State(c.machine.State())
}

// SessionID returns the session's id, 0 before the first server was reached.
func (c *Client) SessionID() zk.SessionID { return c.Session().ID }

// Session returns what is needed to attach to this session again. Treat it as a secret.
func (c *Client) Session() Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	id, password := c.machine.Session()
	return Session{id, password, c.machine.LastZxid()}
}

// Timeout returns the session timeout that the servers have granted, the shortest one if they
// have granted several. Before a server is reached it is the one asked for.
func (c *Client) Timeout() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Duration(c.machine.TimeoutMs()) * time.Millisecond
}

// Clock returns the clock that the client uses: that of Options.Clock, or of this machine.
// ProvenUntil, and what depends on it, is an instant of this clock.
func (c *Client) Clock() clock.Clock { return c.clock }

// Server returns the address of the server in use, "" if there is none.
func (c *Client) Server() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.machine.Address()
}

// SetServers replaces the list of servers, which must have the current chroot or none. The client
// moves to another server, keeping its session, if its server is not in the new list, or at
// random to spread clients over a list that has grown. It moves at once if all names in the list
// are known, and otherwise when it loses its connection. Setting the same list again changes
// nothing.
func (c *Client) SetServers(servers string) error {
	list, chroot, err := parseServers(servers)
	if err != nil {
		return err
	}
	if chroot != "" && chroot != c.chroot {
		return fmt.Errorf("client: chroot %s cannot become %s", c.chroot, chroot)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Equal(list, c.servers) {
		return nil
	}
	c.servers = list
	c.step(clientsession.Event{Kind: clientsession.Reseat})
	return nil
}

// closeWait bounds how long Close waits for the functions that Go runs, and then for the
// server's answer.
const closeWait = 5 * time.Second

// Close ends the session on the server, which deletes its ephemeral znodes, and waits until
// nothing of the client is left running. All other calls end. An error means that no server was
// reached: the session then lives on until it expires.
func (c *Client) Close() error {
	var err error
	c.closing.Do(func() { err = c.close() })
	return err
}

func (c *Client) close() error {
	working, cancel := context.WithTimeout(context.Background(), closeWait)
	c.stopWork(working)
	cancel()
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	last := c.newCall(&zk.Request{Op: zk.OpCloseSession}, nil)
	c.mu.Lock()
	ended := c.err != nil
	c.step(clientsession.Event{Kind: clientsession.Close, Call: &last.Call})
	c.mu.Unlock()
	err := last.wait(ctx, c, nil)
	c.Detach()
	if err != nil && !ended {
		return &Error{zk.OpCloseSession, "", err, last.outcome}
	}
	return nil
}

// Detach ends the client and leaves the session, which lives on until it
// expires. Options.Resume attaches to it again. It waits until nothing of the
// client is left running. A lock of client/recipes is lost, and its znode stays with
// the session, in the way of others: release it before.
func (c *Client) Detach() Session {
	c.mu.Lock()
	c.step(clientsession.Event{Kind: clientsession.Detach})
	c.mu.Unlock()
	c.workers.Wait()
	c.group.Wait()
	if c.requests != nil {
		c.requests.Close()
	}
	return c.Session()
}
