package replica_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/replicadisk"
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

var (
	seedsRun = flag.Int("seeds", 30, "how many random runs of ensembles")
	seedRun  = flag.Uint64("seed", 0, "the first one")
	printRun = flag.Bool("print", false, "print all that happens")
)

// TestRandomEnsemblesKeepTheRules gives ensembles random commands, with one seed for each run.
// All the while it checks replica-R1 to replica-R4, replica-R6, and that all servers at one
// zxid have one tree (see watcher_test.go). At the end the ensemble is made whole. Then it must
// serve within a time, every write that was acknowledged must be everywhere, all trees and
// sessions must be equal, also after a restart, and nothing may be left of sessions that ended
// (replica-R5).
func TestRandomEnsemblesKeepTheRules(t *testing.T) {
	var total tally
	for n := range *seedsRun {
		seed := *seedRun + uint64(n)
		t.Run(fmt.Sprint(seed), func(t *testing.T) { playSeed(t, seed, &total) })
	}
	t.Logf("%+v", total)
	if *seedsRun >= 30 && (total.Acked < 500 || total.Looked < 50 || total.Resumed < 40 || total.Elections < 150 ||
		total.Snap < 20 || total.Trunc < 1 || total.Reconfigs < 5) {
		t.Errorf("%+v is too little to show anything", total)
	}
}

// tally counts what random runs have covered.
type tally struct {
	Acked, Looked, Resumed, Elections, Snap, Trunc, Reconfigs int
}

func playSeed(t *testing.T, seed uint64, total *tally) {
	d := newDice(t, seed)
	defer d.count(total)
	for range 400 {
		d.turn()
	}
	d.repair()
	d.compare()
	d.restart()
	d.compare()
	d.expire()
}

// dice chooses what happens to a world.
type dice struct {
	*world
	random *rand.Rand
	nextID session.ConnID
	marks  int // znodes of their own that clients asked for
	counts tally
}

func newDice(t *testing.T, seed uint64, changes ...func(*replica.Options)) *dice {
	say := func(string, ...any) {}
	if *printRun {
		say = func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	}
	d := &dice{world: newWorld(t, say), random: rand.New(rand.NewPCG(seed, 3))}
	d.patient = true
	d.opts.Zab.HistoryMax = []int{0, 1, 4}[d.below(3)]
	d.opts.Zab.CounterMax = []uint32{0, 0, 40}[d.below(3)]
	d.opts.Zab.ForceSnapshot = d.oneIn(6)
	d.opts.LinearizableReads = d.oneIn(4)
	d.opts.ReconfigEnabled, d.opts.Auth.SkipACL = true, true
	d.opts.Reconfig.ParticipantsMin = 2
	d.opts.LocalSessions = d.oneIn(5)
	d.opts.UpgradeSessions = d.opts.LocalSessions
	d.opts.Zab.HistoryBytes = 1 << 20
	d.opts.Zab.Masters = seed%2 == 0
	d.opts.Zab.OneByOne = seed%5 == 2
	for _, change := range changes {
		change(&d.opts)
	}
	d.first = quorum.ID(d.below(2))
	var observers []quorum.ID
	if d.oneIn(2) {
		observers = []quorum.ID{d.first + 3}
	}
	d.found([]int{3, 3, 4, 5}[d.below(4)], observers...)
	for n := d.below(3); n > 0; n-- { // servers that wait to be added
		s := d.add(d.first+quorum.ID(len(d.servers)), false)
		s.saved = d.with(s)
	}
	for _, s := range d.all() {
		s.unsaved = seed%11 == 4 && (seed%2 == 0 || s.id%2 == 0)
		s.start()
	}
	d.quiesce()
	return d
}

func (d *dice) below(n int) int     { return d.random.IntN(n) }
func (d *dice) oneIn(n int) bool    { return d.below(n) == 0 }
func (d *dice) someServer() *server { all := d.all(); return all[d.below(len(all))] }
func (d *dice) count(total *tally) {
	total.Acked += len(d.watcher.acked)
	total.Looked += d.watcher.looked
	total.Resumed += d.counts.Resumed
	total.Elections += d.watcher.elections
	total.Snap += d.watcher.kinds[zab.KindSnap]
	total.Trunc += d.watcher.kinds[zab.KindTrunc]
	total.Reconfigs += d.counts.Reconfigs
}

// turn does one thing. Mostly it lets things continue.
func (d *dice) turn() {
	switch n := d.below(100); {
	case n < 25:
		d.round()
	case n < 40:
		for range 1 + d.below(4) {
			d.someServer().works()
		}
	case n < 50:
		d.quiesce()
	case n < 58:
		d.tick(int64(d.below(700)), slices.DeleteFunc(d.all(), func(*server) bool { return d.oneIn(4) }))
	case n < 61:
		d.connectSomewhere()
	case n < 96:
		for range 1 + d.below(5) {
			d.ask()
		}
	case n < 98:
		d.someSnapshot()
	default:
		d.trouble()
	}
}

// round moves a part of what is on its way.
func (d *dice) round() {
	for _, s := range d.all() {
		s.dial()
	}
	for i := 0; i < len(d.lanes); i++ {
		for n := d.below(3); n > 0 && d.lanes[i].moves(); n-- {
			continue
		}
	}
	d.sweep()
}

// up are the servers that are up.
func (d *dice) up() []*server {
	return slices.DeleteFunc(d.all(), func(s *server) bool { return s.replica == nil })
}

// connectSomewhere opens a connection, for an old session or a new one.
func (d *dice) connectSomewhere() {
	up := d.up()
	if len(up) == 0 {
		return
	}
	d.nextID++
	h := handshake{timeoutMs: int32(3000 + d.below(10_000))}
	if known := d.watcher.order; len(known) > 0 && d.oneIn(2) {
		h.session = known[d.below(len(known))]
		h.seen = d.watcher.seen[h.session]
		h.wrong = d.oneIn(20)
		d.counts.Resumed++
	}
	d.connect(d.nextID, up[d.below(len(up))], h)
}

// ask makes some client do something.
func (d *dice) ask() {
	var open []*client
	for _, c := range d.sortedClients() {
		if !c.closed && c.session != 0 && !c.ended {
			open = append(open, c)
		}
	}
	if len(open) < 3 {
		d.connectSomewhere()
	}
	if len(open) == 0 {
		return
	}
	c := open[d.below(len(open))]
	switch n := d.below(80); {
	case n == 0:
		c.leave()
	case n == 1:
		c.ended = true
		c.request(&zk.Request{Op: zk.OpCloseSession})
	case n == 2:
		d.reconfigure(c)
	case n < 6:
		c.server.push(replica.Event{Kind: replica.EventTouch, Conn: c.id})
	default:
		c.request(d.request())
	}
}

func (d *dice) request() *zk.Request {
	path := []string{"/a", "/a", "/b", "/a/x"}[d.below(4)]
	r := &zk.Request{Path: path, Version: -1, ACL: zk.OpenACL(), Data: []byte(fmt.Sprint(d.below(1000)))}
	switch d.below(14) {
	case 0, 1, 2:
		d.marks++
		r.Op, r.Path = zk.OpCreate, fmt.Sprintf("/mark%d", d.marks)
	case 3:
		r.Op, r.Mode = zk.OpCreate, zk.Persistent
	case 4:
		r.Op, r.Mode = zk.OpCreate2, []zk.CreateMode{zk.Ephemeral, zk.EphemeralSequential}[d.below(2)]
	case 5:
		r.Op = zk.OpDelete
	case 6:
		r.Op = zk.OpSetData
	case 7, 8, 9, 10:
		r.Op, r.Watch = zk.OpGetData, d.oneIn(2)
	case 11:
		r.Op = zk.OpSync
	case 12:
		r.Op, r.Path = zk.OpGetChildren2, "/"
	case 13:
		r.Op = zk.OpMulti
		r.Ops = []zk.Request{{Op: zk.OpSetData, Path: "/a", Version: -1, Data: r.Data}, {Op: zk.OpCreate, Path: path, ACL: zk.OpenACL()}}
	}
	return r
}

// reconfigure asks for other roles, for one server or for several at once. Sometimes the leader
// dies while that is on its way.
func (d *dice) reconfigure(c *client) {
	d.counts.Reconfigs++
	all := d.all()
	d.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	count := 1
	if d.oneIn(2) {
		count += d.below(len(all))
	}
	var joining, leaving []string
	for _, s := range all[:count] {
		if d.oneIn(2) {
			leaving = append(leaving, fmt.Sprint(s.id))
		} else {
			joining = append(joining, d.line(s.id, d.oneIn(4)))
		}
	}
	r := &zk.Reconfig{ConfigID: -1}
	if text := strings.Join(joining, ","); text != "" {
		r.Joining = &text
	}
	if text := strings.Join(leaving, ","); text != "" {
		r.Leaving = &text
	}
	c.request(&zk.Request{Op: zk.OpReconfig, Reconfig: r})
	if d.oneIn(2) {
		d.loseLeader(c)
	}
}

// loseLeader moves some messages and disks, with some writes after them. Then the leader is
// gone, with everything that it has not synced and everything that it has sent.
func (d *dice) loseLeader(c *client) {
	for range d.below(12) {
		if d.oneIn(3) {
			d.marks++
			c.request(&zk.Request{Op: zk.OpCreate, Path: fmt.Sprintf("/mark%d", d.marks), ACL: zk.OpenACL()})
		}
		if d.oneIn(2) {
			d.someServer().works()
		}
		for i := 0; i < len(d.lanes); i++ {
			if d.oneIn(2) {
				d.lanes[i].moves()
			}
		}
	}
	for _, s := range d.up() {
		if s.replica.Leads() {
			s.say("crashes, having led")
			s.crash(0, 1)
		}
	}
}

func (d *dice) someSnapshot() {
	s := d.someServer()
	switch {
	case s.replica == nil:
	case s.snapshot != nil:
		_, err := s.snapshot.Save(s.disk.Store(), nil)
		s.snapshot = nil
		if !errors.Is(err, replicadisk.ErrCut) {
			must(d.t, err)
		}
		_, err = s.disk.Store().Purge(3)
		must(d.t, err)
	case s.replica.Serving():
		s.disk.Log().Roll()
		s.snapshot = replicadisk.BeginLogged(s.replica)
	}
}

// trouble breaks something, or repairs it.
func (d *dice) trouble() {
	a, b := d.someServer(), d.someServer()
	switch n := d.below(14); {
	case n < 3 && a.replica != nil:
		a.say("killed")
		a.kill()
	case n < 5 && a.replica != nil:
		a.say("crashes")
		a.crash(d.below(101), int64(d.below(1<<30)))
	case n < 8:
		for _, s := range d.all() {
			if s.replica == nil && !d.oneIn(3) {
				s.start()
			}
		}
	case n < 10 && a != b:
		d.cuts[pairOf(a, b)] = true
	case n < 12:
		clear(d.cuts)
	case n == 12 && a != b:
		d.breakLinks(a, b)
	case n == 13 && a.replica != nil:
		a.full = !a.full
		a.push(replica.Event{Kind: replica.EventDisk, Full: a.full})
	}
}

// repair makes the ensemble whole, and waits until all servers serve and have the same state.
func (d *dice) repair() {
	clear(d.cuts)
	for _, s := range d.all() {
		if s.replica == nil {
			s.start()
		} else if s.full {
			s.full = false
			s.push(replica.Event{Kind: replica.EventDisk})
		}
	}
	for range 60 {
		d.pass(1000)
		if d.whole() {
			return
		}
	}
	d.show()
	d.t.Fatal("the ensemble does not come to serve, and to have one history, in a minute")
}

func (d *dice) whole() bool {
	first := d.all()[0].replica
	for _, s := range d.all() {
		r := s.replica
		if !r.Serving() || r.Epoch() != first.Epoch() || r.Tree().LastZxid() != first.Tree().LastZxid() {
			return false
		}
	}
	return true
}

// compare compares all trees.
func (d *dice) compare() {
	first := d.all()[0].replica
	for _, s := range d.all() {
		r := s.replica
		if r.Tree().Digest() != first.Tree().Digest() || r.Tree().Count() != first.Tree().Count() {
			d.t.Errorf("the tree of server %d differs from that of server 1", s.id)
		}
		if got, want := fmt.Sprint(sessionsOf(r)), fmt.Sprint(sessionsOf(first)); got != want {
			d.t.Errorf("server %d has sessions %s, server 1 %s", s.id, got, want)
		}
		if got, want := r.Config().Text(), first.Config().Text(); got != want {
			d.t.Errorf("server %d is in the ensemble %s, server 1 in %s", s.id, rolesOf(r.Config()), rolesOf(first.Config()))
		}
		for path, zxid := range d.watcher.acked {
			n, ok := r.Tree().Find(path)
			if !ok || n.Stat().Czxid != zxid {
				d.t.Errorf("server %d does not have %s of %s, which was acknowledged", s.id, path, zab.FormatZxid(zxid))
			}
		}
	}
}

// sessionsOf are the sessions that all servers know, as a snapshot has them.
func sessionsOf(r *replica.Replica) []session.Lease { return r.Leases() }

// restart makes all servers read their disks.
func (d *dice) restart() {
	for _, s := range d.all() {
		s.crash(0, 1)
		s.start()
	}
	d.repair()
}

// expire lets all sessions end; nothing of them may be left (replica-R5). Every new epoch gives
// the remaining sessions their full timeout, and some epochs are short.
func (d *dice) expire() {
	for range 300 {
		d.pass(1000)
		if d.all()[0].replica.Sessions().Count() == 0 {
			break
		}
	}
	d.pass(3000)
	for _, s := range d.all() {
		if n := s.replica.Sessions().Count(); n != 0 {
			d.t.Errorf("server %d has %d sessions of which nothing was received for long", s.id, n)
		}
		if n := s.replica.Tree().EphemeralCount(); n != 0 {
			d.t.Errorf("R5: server %d has %d ephemerals without a session", s.id, n)
		}
	}
}

// isMark reports whether a path is only ever created, and by a single request.
func isMark(path string) bool { return strings.HasPrefix(path, "/mark") }
