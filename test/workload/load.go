package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/zk"
)

// Root is the znode above everything that a load creates.
const Root = "/load"

// Options describe the load. Servers is required.
type Options struct {
	// Servers is the connect string of all clients.
	Servers string

	// Writers is the number of clients that write; default 3. Readers is the number of
	// clients that read, after a sync, what the writers have written; default 0.
	Writers, Readers int

	// Contenders is the number of clients that work on the same keys; see Contended.
	Contenders int

	// Pause is the time that a client waits after each operation; default none.
	Pause time.Duration

	// Kept is how many of its newest znodes a writer keeps; it deletes older ones. 0 keeps
	// all.
	Kept int

	// SessionTimeout is the requested timeout; default 10 s.
	SessionTimeout time.Duration

	// ConnectTimeout limits the attempt to reach one server; default 500 ms.
	ConnectTimeout time.Duration

	// CallTimeout limits one operation; default 30 s. An operation that was sent and not
	// answered by then has an unknown outcome.
	CallTimeout time.Duration

	// StaleAllowed permits a stale read after a sync, which Apache's sync allows when the
	// leader is partitioned: it is counted, but is not a breach.
	StaleAllowed bool

	// Client contains everything besides times that all clients need, such as credentials.
	Client client.Options

	// Prefix is the znode below Root for this load; default "a". Concurrent loads need
	// different ones.
	Prefix string
}

func (o Options) withDefaults() Options {
	if o.Writers == 0 {
		o.Writers = 3
	}
	if o.SessionTimeout == 0 {
		o.SessionTimeout = 10 * time.Second
	}
	if o.ConnectTimeout == 0 {
		o.ConnectTimeout = 500 * time.Millisecond
	}
	if o.CallTimeout == 0 {
		o.CallTimeout = 30 * time.Second
	}
	if o.Prefix == "" {
		o.Prefix = "a"
	}
	return o
}

// A Load is a set of running clients.
type Load struct {
	Ledger *Ledger

	options Options
	writers []*writer
	readers []*reader
	started time.Time
	stop    chan struct{}
	once    sync.Once
	running sync.WaitGroup
	stale   atomic.Int64
	reads   atomic.Int64
	contest contest

	mu      sync.Mutex
	servers string // for new sessions
}

// Start creates the znodes for the clients and starts the clients. The context limits only
// the start.
func Start(ctx context.Context, o Options) (*Load, error) {
	o = o.withDefaults()
	l := &Load{Ledger: NewLedger(), options: o, servers: o.Servers, stop: make(chan struct{})}
	if err := l.prepare(ctx); err != nil {
		return nil, fmt.Errorf("workload: start: %w", err)
	}
	for id := range o.Writers {
		w := &writer{load: l, id: id}
		if err := w.open(ctx); err != nil {
			l.abandon()
			return nil, fmt.Errorf("workload: start: %w", err)
		}
		l.writers = append(l.writers, w)
	}
	for id := range o.Readers {
		l.readers = append(l.readers, &reader{load: l, id: id})
	}
	l.started = time.Now()
	l.contest.started = l.started
	for _, w := range l.writers {
		l.running.Go(w.run)
	}
	for _, r := range l.readers {
		l.running.Go(r.run)
	}
	for id := range o.Contenders {
		c := &contender{load: l, id: id}
		l.running.Go(c.run)
	}
	return l, nil
}

func (l *Load) abandon() {
	for _, w := range l.writers {
		w.session().Close()
	}
}

// prepare creates the znodes that all clients need.
func (l *Load) prepare(ctx context.Context) error {
	c, err := l.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	paths := []string{Root, l.path("")}
	for id := range l.options.Writers {
		paths = append(paths, l.path(fmt.Sprintf("/w%d", id)), l.register(id))
	}
	for _, path := range append(paths, l.path("/sessions")) {
		if _, _, err := c.Create(ctx, path, []byte("0"), client.CreateOptions{}); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	return nil
}

// Guest creates a znode below which a client that is not of this package writes. The caller
// records the client's answers in the Ledger, which is checked with the rest.
func (l *Load) Guest(ctx context.Context, name string) (string, error) {
	c, err := l.dial(ctx)
	if err != nil {
		return "", fmt.Errorf("workload: guest: %w", err)
	}
	defer c.Close()
	path, _, err := c.Create(ctx, l.path("/w-"+name), nil, client.CreateOptions{})
	return path, err
}

func (l *Load) path(rest string) string { return Root + "/" + l.options.Prefix + rest }

// register returns the znode in which a writer counts.
func (l *Load) register(id int) string { return l.path(fmt.Sprintf("/r%d", id)) }

func (l *Load) dial(ctx context.Context) (*client.Client, error) {
	o := l.options.Client
	o.SessionTimeout, o.ConnectTimeout = l.options.SessionTimeout, l.options.ConnectTimeout
	o.BackoffMax, o.BackoffMin = 200*time.Millisecond, 10*time.Millisecond
	return client.Dial(ctx, l.list(), o)
}

// context returns a context for one operation. It does not end with the load, because the
// outcome of every operation should be known.
func (l *Load) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), l.options.CallTimeout)
}

func (l *Load) stopped() bool {
	select {
	case <-l.stop:
		return true
	default:
		return false
	}
}

// pause waits between operations; it returns false if the load must end.
func (l *Load) pause(d time.Duration) bool {
	if d == 0 {
		return !l.stopped()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.stop:
		return false
	}
}

// Acknowledged returns how many writes were acknowledged so far.
func (l *Load) Acknowledged() int64 {
	var sum int64
	for _, w := range l.writers {
		sum += w.acknowledged.Load()
	}
	return sum
}

// Await waits until this many more writes were acknowledged.
func (l *Load) Await(ctx context.Context, writes int64) error {
	goal := l.Acknowledged() + writes
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for l.Acknowledged() < goal {
		select {
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("workload: %d of %d writes acknowledged: %w", writes-goal+l.Acknowledged(), writes, ctx.Err())
		}
	}
	return nil
}

// SetServers replaces the list of servers of all clients.
func (l *Load) SetServers(servers string) error {
	l.mu.Lock()
	l.servers = servers
	l.mu.Unlock()
	for _, w := range l.writers {
		if err := w.session().SetServers(servers); err != nil {
			return fmt.Errorf("workload: set servers: %w", err)
		}
	}
	for _, r := range l.readers {
		if c := r.session(); c != nil {
			if err := c.SetServers(servers); err != nil {
				return fmt.Errorf("workload: set servers: %w", err)
			}
		}
	}
	return nil
}

func (l *Load) list() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.servers
}

// Avoid moves the writers away from one server, which stays in their list.
func (l *Load) Avoid(ctx context.Context, addr string) error {
	all := strings.Split(l.list(), ",")
	others := strings.Join(slices.DeleteFunc(slices.Clone(all), func(a string) bool { return a == addr }), ",")
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for _, w := range l.writers {
		c := w.session()
		// When its list grows, a client may happen to move back: then try again.
		for c.Server() == addr || c.State() != client.Connected {
			if err := c.SetServers(others); err != nil {
				return fmt.Errorf("workload: avoid %s: %w", addr, err)
			}
			for c.Server() == addr || c.State() != client.Connected {
				select {
				case <-poll.C:
				case <-ctx.Done():
					return fmt.Errorf("workload: avoid %s: %w", addr, ctx.Err())
				}
			}
			if err := c.SetServers(strings.Join(all, ",")); err != nil {
				return fmt.Errorf("workload: avoid %s: %w", addr, err)
			}
		}
	}
	return nil
}

// Finish lets the clients complete their operations and stop. Their sessions stay open
// until Close, because Verify checks their ephemerals.
func (l *Load) Finish() {
	l.once.Do(func() { close(l.stop) })
	l.running.Wait()
}

// Close ends all sessions.
func (l *Load) Close() {
	l.Finish()
	for _, w := range l.writers {
		w.session().Close()
	}
}
