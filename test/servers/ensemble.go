//go:build linux

package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/conclave-project/conclave/internal/childtest"
)

// EnsembleOptions describe an ensemble. Kinds is required.
type EnsembleOptions struct {
	// Kinds are the programs of servers 1, 2 and so on.
	Kinds []Kind

	// FromZero makes the ids start at 0 instead.
	FromZero bool

	// Observers are the ids of servers without a vote.
	Observers []int

	// Config are additional lines of zoo.cfg for every server; see Options.Config. The
	// default is a tick of 500 ms, with 20 ticks to join and 4 of silence.
	Config []string

	// Properties, HeapMiB, JavaFlags and StartWithin are as in Options.
	Properties  map[string]string
	HeapMiB     int
	JavaFlags   []string
	StartWithin time.Duration

	// Dir contains the servers' directories, 1, 2 and so on. If empty, a temporary
	// directory is created, and removed by Close.
	Dir string

	// Proxied puts proxies between all servers, see Ensemble.Network.
	Proxied bool

	// Masters makes followers serve observers (observerMasterPort). Observers try all
	// servers at one port, so each member has an address of its own, 127.0.0.ID.
	Masters bool

	// Oracle makes each of two servers ask a file of its own whether it may continue
	// without the other (oraclePath), see Member.Says.
	Oracle bool

	// Reconfig lets the ensemble's configuration change: it contains the servers' client
	// addresses, and each server keeps its zoo.cfg across starts. It is not possible with
	// Proxied, where addresses differ from server to server.
	Reconfig bool
}

// An Ensemble is a set of servers that know each other. Members may be of different kinds,
// and may change their kind while they are stopped.
type Ensemble struct {
	// Members are sorted by id: Members[0] has the id 1, or 0.
	Members []*Member

	// Network is nil unless the ensemble is proxied.
	Network *Network

	options EnsembleOptions
	scratch string // directory to be removed
	ports   map[int]bool
}

// ensembleDefaults are shorter times than in Apache's examples, so tests of failures do not
// wait long.
var ensembleDefaults = []string{"tickTime=500", "initLimit=20", "syncLimit=4"}

// WithEnsemble runs f with a fresh ensemble and its leader, and ends the ensemble. An error
// of f is returned with the ends of the servers' logs.
func WithEnsemble(ctx context.Context, o EnsembleOptions, f func(e *Ensemble, leader *Member) error) error {
	e, err := NewEnsemble(ctx, o)
	if err != nil {
		return err
	}
	defer e.Close()
	if err := e.Start(ctx); err != nil {
		return err
	}
	leader, err := e.AwaitLeader(ctx)
	if err != nil {
		return err
	}
	if err := f(e, leader); err != nil {
		return fmt.Errorf("%w\n%s", err, e.LogTails(2000))
	}
	return nil
}

// NewEnsemble creates directories and chooses ports; it starts nothing.
func NewEnsemble(ctx context.Context, o EnsembleOptions) (*Ensemble, error) {
	if o.Proxied && o.Reconfig {
		return nil, errors.New("servers: an ensemble cannot be proxied and change its configuration")
	}
	e := &Ensemble{options: o, ports: map[int]bool{}}
	if o.Dir == "" {
		dir, err := os.MkdirTemp("", "conclave-ensemble-")
		if err != nil {
			return nil, fmt.Errorf("servers: new ensemble: %w", err)
		}
		e.options.Dir, e.scratch = dir, dir
	}
	for _, k := range o.Kinds {
		if _, err := e.Grow(ctx, k); err != nil {
			return nil, errors.Join(err, e.Close())
		}
	}
	for _, id := range o.Observers {
		e.Member(id).Observer = true
	}
	if o.Masters {
		port, err := e.freePort()
		if err != nil {
			return nil, errors.Join(err, e.Close())
		}
		e.options.Config = append(slices.Clone(o.Config), fmt.Sprintf("observerMasterPort=%d", port))
	}
	if o.Proxied {
		if err := e.proxy(); err != nil {
			return nil, errors.Join(err, e.Close())
		}
	}
	return e, nil
}

// Grow adds a member with the next id without starting it. It does not change the
// configurations of members that were started before.
func (e *Ensemble) Grow(ctx context.Context, k Kind) (*Member, error) {
	if err := k.Install(ctx); err != nil {
		return nil, err
	}
	m := &Member{ID: len(e.Members) + e.firstID(), Kind: k, ensemble: e, links: map[int]link{}}
	m.Dir = filepath.Join(e.options.Dir, fmt.Sprint(m.ID))
	if err := os.MkdirAll(m.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("servers: new ensemble: %w", err)
	}
	for _, port := range []*int{&m.clientPort, &m.quorumPort, &m.electionPort} {
		var err error
		if *port, err = e.freePort(); err != nil {
			return nil, err
		}
	}
	m.Addr = loopback(m.clientPort)
	e.Members = append(e.Members, m)
	return m, nil
}

// freePort returns a free port that no member has been given.
func (e *Ensemble) freePort() (int, error) {
	for {
		port, err := childtest.FreePort()
		if err != nil || !e.ports[port] {
			e.ports[port] = true
			return port, err
		}
	}
}

// proxy puts a proxy between every two members.
func (e *Ensemble) proxy() error {
	e.Network = newNetwork()
	for _, from := range e.Members {
		for _, to := range e.Members {
			if from == to {
				continue
			}
			quorum, election, err := e.Network.link(from, to)
			if err != nil {
				return err
			}
			from.links[to.ID] = link{quorum, election}
		}
	}
	return nil
}

// Member returns the server with an id.
func (e *Ensemble) Member(id int) *Member { return e.Members[id-e.firstID()] }

func (e *Ensemble) firstID() int {
	if e.options.FromZero {
		return 0
	}
	return 1
}

// Addrs returns the connect string with all servers.
func (e *Ensemble) Addrs() string {
	var addrs []string
	for _, m := range e.Members {
		addrs = append(addrs, m.Addr)
	}
	return strings.Join(addrs, ",")
}

// Start starts all members at once and waits until each serves.
func (e *Ensemble) Start(ctx context.Context) error { return StartAll(ctx, e.Members...) }

// StartAll starts members at once and waits until each serves.
func StartAll(ctx context.Context, members ...*Member) error {
	for _, m := range members {
		if err := m.Launch(ctx); err != nil {
			return err
		}
	}
	for _, m := range members {
		if err := m.AwaitServing(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Configure replaces the additional lines of zoo.cfg on every server, from its next start
// on; see EnsembleOptions.Config.
func (e *Ensemble) Configure(lines []string) { e.options.Config = lines }

// Leader returns the running member that says it leads, nil if none does. If several do,
// which may happen for a moment after a pause, it is one with the highest epoch.
func (e *Ensemble) Leader() *Member {
	var leader *Member
	var best int64
	for _, m := range e.Members {
		if s, err := m.Status(); err == nil && s.Leads() && (leader == nil || s.Zxid>>32 > best) {
			leader, best = m, s.Zxid>>32
		}
	}
	return leader
}

// AwaitLeader waits until a member leads.
func (e *Ensemble) AwaitLeader(ctx context.Context) (*Member, error) {
	var leader *Member
	err := e.await(ctx, "no server leads", func() bool {
		leader = e.Leader()
		return leader != nil
	})
	return leader, err
}

// AwaitEqual waits until all running members have applied the same last
// transaction, and returns its zxid. Clients should be quiet then.
func (e *Ensemble) AwaitEqual(ctx context.Context) (int64, error) {
	var zxid int64
	err := e.await(ctx, "the servers' zxids differ", func() bool {
		first := true
		for _, m := range e.Members {
			if !m.Running() {
				continue
			}
			s, err := m.Status()
			if err != nil || !first && s.Zxid != zxid {
				return false
			}
			zxid, first = s.Zxid, false
		}
		return !first
	})
	return zxid, err
}

// await polls a condition: four-letter words allow nothing better.
func (e *Ensemble) await(ctx context.Context, otherwise string, condition func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, e.within())
	defer cancel()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for !condition() {
		select {
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("servers: %s: %s", otherwise, e.Describe())
		}
	}
	return nil
}

func (e *Ensemble) within() time.Duration {
	if e.options.StartWithin != 0 {
		return e.options.StartWithin
	}
	return defaultStartWithin
}

// Describe returns one line with the states of all members.
func (e *Ensemble) Describe() string {
	var parts []string
	for _, m := range e.Members {
		s, err := m.Status()
		what := fmt.Sprintf("%s 0x%x", s.Mode, s.Zxid)
		switch {
		case !m.Running():
			what = "down"
		case err != nil:
			what = "not serving"
		}
		parts = append(parts, fmt.Sprintf("%d %s %s", m.ID, m.Kind.Name(), what))
	}
	return strings.Join(parts, ", ")
}

// LogTails returns the ends of all members' logs, for a failed test.
func (e *Ensemble) LogTails(bytesMax int) string {
	var b strings.Builder
	for _, m := range e.Members {
		fmt.Fprintf(&b, "--- server %d, %s:\n%s\n", m.ID, m.Kind.Name(), m.LogTail(bytesMax))
	}
	return b.String()
}

// Close kills all members and removes what NewEnsemble created.
func (e *Ensemble) Close() error {
	var errs []error
	for _, m := range e.Members {
		errs = append(errs, m.Kill())
	}
	if e.Network != nil {
		e.Network.close()
	}
	if e.scratch != "" {
		errs = append(errs, os.RemoveAll(e.scratch))
	}
	return errors.Join(errs...)
}
