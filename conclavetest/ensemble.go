package conclavetest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/admin"
	"github.com/conclave-project/conclave/internal/inprocess"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/zk"
)

// patience is how long a method waits for what it promises to happen, by the real clock.
const patience = 20 * time.Second

// pause is the interval between two looks at a state that does not announce its changes.
const pause = 200 * time.Microsecond

// Ensemble is a running ensemble. Its servers are numbered from 1.
type Ensemble struct {
	t       testing.TB
	opts    options
	local   *inprocess.Ensemble
	clock   *movable
	journal *journal
	cuts    map[[2]int]bool
	clients []*client.Client // made by Client: the clock is moved no faster than they can follow
}

// Start starts an ensemble and returns when all its servers serve. The ensemble ends with the
// test.
func Start(t testing.TB, with ...Option) *Ensemble {
	t.Helper()
	e := &Ensemble{t: t, opts: defaults(), clock: newMovable(), cuts: map[[2]int]bool{}}
	for _, option := range with {
		option(&e.opts)
	}
	e.journal = newJournal(e.opts.log)
	var err error
	e.local, err = inprocess.Start(inprocess.Options{
		Servers: e.opts.servers, Observers: e.opts.observers, Base: e.config(),
		Logger: e.journal.logger, RoleChanged: e.journal.roleChanged, Ended: e.journal.ended,
	})
	if err != nil {
		t.Fatalf("conclavetest: %v", err)
	}
	t.Cleanup(e.end)
	e.await("all servers to serve", e.allServe)
	return e
}

// config returns the configuration that all servers share.
func (e *Ensemble) config() server.Config {
	cfg := server.Default()
	cfg.TickTime, cfg.SilenceTime = e.opts.tick, silenceTicks*e.opts.tick
	cfg.SessionMin, cfg.SessionMax = e.opts.sessionMin, sessionMax
	cfg.ConnsPerIPMax, cfg.ExtendedTypes, cfg.PreallocBytes = 0, true, 1<<20
	cfg.ReapInterval = e.opts.tick
	cfg.FourLetterWords, cfg.Commands = []string{"*"}, admin.Commands{Version: "test", Built: "in a test"}
	cfg.Clock, cfg.Wall = e.clock, e.clock.wall
	return cfg
}

// end stops all servers and, if the test has failed, prints what is known.
func (e *Ensemble) end() {
	e.t.Helper()
	e.compareTrees()
	e.local.Close()
	if e.t.Failed() {
		e.t.Log(e.journal.text())
	}
}

// compareTrees fails the test if two servers have different trees at the same
// transaction.
func (e *Ensemble) compareTrees() {
	e.t.Helper()
	type seen struct {
		id     int
		digest uint64
	}
	trees := map[zk.Zxid]seen{}
	for id := 1; id <= e.local.Size(); id++ {
		s := e.local.Server(id)
		if s == nil || !s.Serves() {
			continue
		}
		zxid, digest := s.Digest()
		if other, ok := trees[zxid]; ok && other.digest != digest {
			e.t.Errorf("conclavetest: the trees of servers %d and %d differ at %s", other.id, id, zxid)
		}
		trees[zxid] = seen{id, digest}
	}
}

// Servers returns the list of all servers, running or not, as client.New takes it.
func (e *Ensemble) Servers() string { return strings.Join(e.local.Addrs(), ",") }

// Addr returns the address at which a server serves clients, as host:port.
func (e *Ensemble) Addr(id int) string { return e.local.Addr(id) }

// Client opens a session for the test, and closes it when the test ends. Advance keeps this
// session alive, but not those of other clients.
func (e *Ensemble) Client(t testing.TB, change ...func(*client.Options)) *client.Client {
	t.Helper()
	var o client.Options
	for _, f := range change {
		f(&o)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := client.Dial(ctx, e.Servers(), o)
	if err != nil {
		t.Fatalf("conclavetest: open a session: %v", err)
	}
	t.Cleanup(func() { _ = c.Close() }) // a session that cannot be closed ends with its servers
	e.clients = append(e.clients, c)
	return c
}

// Kill ends a server at once, as a crash of its machine would. What was not synced to its disk is
// lost.
func (e *Ensemble) Kill(id int) {
	e.t.Helper()
	e.journal.note("server %d is killed", id)
	e.must(e.local.Kill(id))
}

// Restart starts a server on the disk that it had; a running server is killed first. It does not
// wait until the server serves clients: see WaitSynced.
func (e *Ensemble) Restart(id int) {
	e.t.Helper()
	if e.local.Server(id) != nil {
		e.Kill(id)
	}
	e.journal.note("server %d is started", id)
	e.must(e.local.Start(id))
}

// Cut stops all traffic between two servers. Neither learns that the other is gone until they miss
// each other (see TickTime).
func (e *Ensemble) Cut(a, b int) {
	e.t.Helper()
	e.journal.note("servers %d and %d are partitioned from each other", a, b)
	e.must(e.local.Cut(a, b))
	e.cuts[[2]int{min(a, b), max(a, b)}] = true
}

// Heal ends all cuts.
func (e *Ensemble) Heal() {
	e.journal.note("all cuts are healed")
	e.local.Heal()
	clear(e.cuts)
}

// Leader waits until a server leads and returns its number. If the others have elected a new
// leader, and the old one does not know yet that it is partitioned from them, Leader returns the
// new one.
func (e *Ensemble) Leader() int {
	e.t.Helper()
	leader := 0
	e.await("a leader", func() bool {
		leader = e.local.Leader()
		return leader != 0
	})
	return leader
}

// WaitSynced waits until every running server that is not partitioned from the leader serves and
// has everything that the leader had committed.
func (e *Ensemble) WaitSynced() {
	e.t.Helper()
	leader := e.Leader()
	var committed zk.Zxid
	if s := e.local.Server(leader); s != nil {
		committed = s.Status().Committed
	}
	e.poll(fmt.Sprintf("all servers to have transaction %s", committed), func() bool {
		leader := e.local.Leader()
		if leader == 0 {
			return false
		}
		for _, s := range e.near(leader) {
			if st := s.Status(); int(st.Leader) != leader || st.Last < committed {
				return false
			}
		}
		return true
	})
}

// near returns the running servers that are not partitioned from the leader, including the leader
// itself.
func (e *Ensemble) near(leader int) []*server.Server {
	var all []*server.Server
	for id := 1; id <= e.local.Size(); id++ {
		if s := e.local.Server(id); s != nil && !e.cuts[[2]int{min(id, leader), max(id, leader)}] {
			all = append(all, s)
		}
	}
	return all
}

// ExpireSession ends a session as if its client had been silent for the session timeout. Its
// ephemerals are deleted, and its client learns of the expiry with its next request. The method
// returns when all servers that are not partitioned know about it.
func (e *Ensemble) ExpireSession(id zk.SessionID) {
	e.t.Helper()
	e.journal.note("session %s expires", id)
	found := false
	e.poll(fmt.Sprintf("session %s to end", id), func() bool {
		leader := e.Leader()
		s := e.local.Server(leader)
		if s == nil {
			return false
		}
		if !found && !s.KnowsSession(id) {
			e.t.Fatalf("conclavetest: there is no session %s", id)
		}
		found = true
		s.ExpireSession(id) // again if there is a new leader: the old one may have lost it
		for _, s := range e.near(leader) {
			if s.KnowsSession(id) {
				return false
			}
		}
		return true
	})
}

// Clock returns the clock of the servers, for election.Options.
func (e *Ensemble) Clock() clock.Clock { return e.clock }

// Now returns the date by the clock of the servers.
func (e *Ensemble) Now() time.Time { return e.clock.wall() }

// must fails the test if there is an error.
func (e *Ensemble) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatalf("conclavetest: %v", err)
	}
}

// allServe reports whether every running server serves clients.
func (e *Ensemble) allServe() bool {
	for id := 1; id <= e.local.Size(); id++ {
		if s := e.local.Server(id); s != nil && !s.Serves() {
			return false
		}
	}
	return true
}

// await waits for a condition that changes with the servers' roles.
func (e *Ensemble) await(what string, ready func() bool) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if e.local.Await(ctx, ready) != nil {
		e.t.Fatalf("conclavetest: waited %v in vain for %s", patience, what)
	}
}

// poll waits for a condition that does not announce its changes.
func (e *Ensemble) poll(what string, ready func() bool) {
	e.t.Helper()
	for end := time.Now().Add(patience); !ready(); time.Sleep(pause) {
		if time.Now().After(end) {
			e.t.Fatalf("conclavetest: waited %v in vain for %s", patience, what)
		}
	}
}
