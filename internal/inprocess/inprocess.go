package inprocess

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/vfs"
)

// Options describe the ensemble.
type Options struct {
	Servers   int // number of servers with a vote, numbered from 1; a single one is standalone
	Observers int // number of observers, numbered after the others
	// FS returns the disk of a server, and is called once for each; nil gives each a memory
	// disk.
	FS  func(id int) vfs.FS
	Dir string // data directories are Dir/1, Dir/2, ...
	// Listen opens the client port of a server; nil opens a free one.
	Listen func(id int) (net.Listener, error)
	Base   server.Config                  // the common configuration
	Change func(id int, c *server.Config) // changes one server's configuration
	Ended  func(id int, reason error)     // called when a server has ended by itself
	Logger func(id int) *slog.Logger      // nil: no log
	// RoleChanged is called on every change of a role, in the server's own loop, which
	// waits for it: it must not call the ensemble. A server that ends counts as looking
	// from then on.
	RoleChanged func(id int, role server.Role)
}

// Ensemble is a running ensemble. It is safe for concurrent use.
type Ensemble struct {
	opts    Options
	config  *ensemble.Config // nil: a standalone server
	members []*member        // by number, from 1
	net     *network
	tasks   sync.WaitGroup // goroutines that run and watch the servers

	news struct {
		sync.Mutex
		changed chan struct{} // closed at the next change of a role
	}
}

// member is a place in the ensemble, whether its server is running or not.
type member struct {
	id int
	fs vfs.FS

	client, quorum, vote *port // the last two are nil for a standalone server

	mu     sync.Mutex
	server *server.Server
	stop   context.CancelFunc
	done   chan struct{} // closed when Run has returned
}

// Start starts all servers. It does not wait for a leader.
func Start(o Options) (*Ensemble, error) {
	if o.Servers < 1 {
		return nil, errors.New("an ensemble has one server or more")
	}
	e := &Ensemble{opts: o, net: newNetwork()}
	e.news.changed = make(chan struct{})
	if err := e.reserve(); err != nil {
		e.Close()
		return nil, err
	}
	for _, m := range e.members {
		if err := e.start(m); err != nil {
			e.Close()
			return nil, err
		}
	}
	return e, nil
}

// reserve opens the ports of all servers and creates their configuration.
func (e *Ensemble) reserve() error {
	total := e.opts.Servers + e.opts.Observers
	text := ""
	for id := 1; id <= total; id++ {
		m := &member{id: id}
		e.members = append(e.members, m)
		if err := e.open(m, total > 1); err != nil {
			return err
		}
		if total == 1 {
			return nil
		}
		role := "participant"
		if id > e.opts.Servers {
			role = "observer"
		}
		_, vote, _ := net.SplitHostPort(m.vote.addr())
		text += fmt.Sprintf("server.%d=%s:%s:%s;%s\n", id, m.quorum.addr(), vote, role, m.client.addr())
		e.net.place(m.quorum.addr(), id)
		e.net.place(m.vote.addr(), id)
	}
	var err error
	e.config, err = ensemble.Parse(text)
	return err
}

// open opens the ports and the disk of a place.
func (e *Ensemble) open(m *member, peers bool) error {
	if e.opts.FS != nil {
		m.fs = e.opts.FS(m.id)
	} else {
		m.fs = vfs.NewMem()
	}
	listen := e.opts.Listen
	if listen == nil {
		listen = func(int) (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }
	}
	client, err := listen(m.id)
	if err != nil {
		return err
	}
	m.client = newPort(client)
	if !peers {
		return nil
	}
	for _, p := range []**port{&m.quorum, &m.vote} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		*p = newPort(l)
	}
	return nil
}

// start starts the server of a place. m.mu is held, or m is not shared yet.
func (e *Ensemble) start(m *member) error {
	cfg := e.opts.Base
	cfg.FS, cfg.Listener, cfg.DataDir = m.fs, m.client.lend(), filepath.Join("/", e.opts.Dir, strconv.Itoa(m.id))
	if e.config != nil {
		cfg.QuorumListener, cfg.ElectionListener = m.quorum.lend(), m.vote.lend()
	}
	cfg.ID, cfg.Ensemble, cfg.Observer = quorum.ID(m.id), e.config, m.id > e.opts.Servers
	cfg.PeerDial = e.net.dialer(m.id)
	cfg.Logger = slog.New(slog.DiscardHandler)
	if e.opts.Logger != nil {
		cfg.Logger = e.opts.Logger(m.id)
	}
	cfg.RoleChanged = func(role server.Role) { e.tell(m.id, role) }
	if e.opts.Change != nil {
		e.opts.Change(m.id, &cfg)
	}
	s, err := server.New(cfg)
	if err != nil {
		return fmt.Errorf("start server %d: %w", m.id, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	m.server, m.stop, m.done = s, stop, make(chan struct{})
	done := m.done
	e.tasks.Go(func() {
		err := s.Run(ctx)
		close(done)
		if s.Role().Mode != server.ModeLooking {
			e.tell(m.id, server.Role{Mode: server.ModeLooking})
		}
		if err != nil && e.opts.Ended != nil {
			e.opts.Ended(m.id, err)
		}
	})
	return nil
}

// tell reports a change of a role.
func (e *Ensemble) tell(id int, role server.Role) {
	if e.opts.RoleChanged != nil {
		e.opts.RoleChanged(id, role)
	}
	e.news.Lock()
	defer e.news.Unlock()
	close(e.news.changed)
	e.news.changed = make(chan struct{})
}

// Await waits until ready returns true. It calls ready again after every change of a role.
func (e *Ensemble) Await(ctx context.Context, ready func() bool) error {
	for {
		e.news.Lock()
		changed := e.news.changed
		e.news.Unlock()
		if ready() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// running returns the place's server, nil if it is down or has ended by itself. m.mu is
// held.
func (m *member) running() *server.Server {
	if m.server == nil {
		return nil
	}
	select {
	case <-m.done:
		return nil
	default:
		return m.server
	}
}

func (e *Ensemble) member(id int) (*member, error) {
	if id < 1 || id > len(e.members) {
		return nil, fmt.Errorf("there is no server %d: they are numbered 1 to %d", id, len(e.members))
	}
	return e.members[id-1], nil
}

// Size returns the number of servers, running or not.
func (e *Ensemble) Size() int { return len(e.members) }

// Votes reports whether a server has a vote.
func (e *Ensemble) Votes(id int) bool { return id >= 1 && id <= e.opts.Servers }

// Server returns a running server, nil if it is down.
func (e *Ensemble) Server(id int) *server.Server {
	m, err := e.member(id)
	if err != nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.running()
}

// Addr returns the client address of a server.
func (e *Ensemble) Addr(id int) string {
	m, err := e.member(id)
	if err != nil {
		return ""
	}
	return m.client.addr()
}

// Addrs returns the client addresses of all servers, running or not.
func (e *Ensemble) Addrs() []string {
	addrs := make([]string, 0, len(e.members))
	for _, m := range e.members {
		addrs = append(addrs, m.client.addr())
	}
	return addrs
}

// Kill ends a server at once, as a crash of its machine would: data that a memory disk had
// not synced is lost. A real disk keeps it, as after a crash of the process.
func (e *Ensemble) Kill(id int) error {
	return e.end(id, func(m *member) {
		// From here on no promise of the server reaches anybody, so nothing that it does
		// until it has ended matters.
		e.net.sever(m.id)
		if mem, ok := m.fs.(*vfs.Mem); ok && e.config != nil {
			m.fs = mem.CrashClone(0, 0)
		}
	})
}

// Stop ends a server in order.
func (e *Ensemble) Stop(id int) error { return e.end(id, func(*member) {}) }

func (e *Ensemble) end(id int, before func(*member)) error {
	m, err := e.member(id)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running() == nil {
		return fmt.Errorf("server %d is down already", id)
	}
	before(m)
	m.stop()
	<-m.done
	m.server = nil
	return nil
}

// Start starts a server that is down.
func (e *Ensemble) Start(id int) error {
	m, err := e.member(id)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running() != nil {
		return fmt.Errorf("server %d is running already", id)
	}
	e.net.join(m.id)
	return e.start(m)
}

// Cut partitions two servers as if a cable was pulled: neither learns that the other is
// gone.
func (e *Ensemble) Cut(a, b int) error {
	if _, err := e.member(a); err != nil {
		return err
	}
	if _, err := e.member(b); err != nil {
		return err
	}
	if a == b {
		return fmt.Errorf("server %d cannot be partitioned from itself", a)
	}
	e.net.cut(a, b)
	return nil
}

// Heal ends all partitions.
func (e *Ensemble) Heal() { e.net.heal() }

// Leader returns the number of the server that leads and serves, 0 if none does. If two
// servers consider themselves leader, it is the one with the later epoch: the other is
// partitioned and cannot commit anything.
func (e *Ensemble) Leader() int {
	leader, epoch := 0, uint32(0)
	for id := 1; id <= len(e.members); id++ {
		s := e.Server(id)
		if s == nil || !s.Leads() {
			continue
		}
		if role := s.Role(); leader == 0 || role.Epoch > epoch {
			leader, epoch = id, role.Epoch
		}
	}
	return leader
}

// Close stops all servers. No callback is called after it has returned.
func (e *Ensemble) Close() {
	e.Heal()
	var all sync.WaitGroup
	for _, m := range e.members {
		all.Go(func() { _ = e.Stop(m.id) })
	}
	all.Wait()
	e.tasks.Wait()
	for _, m := range e.members {
		for _, p := range []*port{m.client, m.quorum, m.vote} {
			if p != nil {
				p.close()
			}
		}
	}
}
