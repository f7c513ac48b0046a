package replica_test

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/conclave-project/conclave/internal/datadir"
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/peerwire"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/replicadisk"
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/internal/txnlog"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// world is an ensemble in one thread. Each server has a disk in memory, and a queue of
// operations for it; between servers are queues of what is on its way. Nothing moves by itself:
// the test decides which queue continues.
type world struct {
	t       *testing.T
	opts    replica.Options // of all; ID and Observer are set for each
	config  *ensemble.Config
	now     replica.Now
	first   quorum.ID // the lowest id: 0 is an id like any other
	servers map[quorum.ID]*server
	lanes   []*lane
	cuts    map[[2]quorum.ID]bool
	clients map[session.ConnID]*client
	names   []zk.SessionID // in the order in which they were seen
	say     func(format string, args ...any)
	watcher watcher
	patient bool // tolerates servers that retry endlessly while no time passes
}

// server is one process, or the machine on which it can start.
type server struct {
	w        *world
	id       quorum.ID
	observer bool
	mem      *vfs.Mem
	saved    *ensemble.Config // in its configuration file
	unsaved  bool             // the configuration file cannot be written

	replica  *replica.Replica // nil while it is down
	disk     *replicadisk.Disk
	snapshot *replicadisk.Snapshot // begun by a story
	work     []operation
	full     bool
	inbox    []replica.Event
	ends     map[zab.LinkID]*end
	linkID   zab.LinkID
	dialing  *quorum.ID // nil: nobody
	masters  bool       // to the port for observers
	untilMs  int64
	alone    bool   // the oracle lets it continue without another
	role     string // the last one told
}

// operation is one operation of the disk, with the snapshot that was begun for it.
type operation struct {
	replica.DiskOp
	snapshot *replicadisk.Snapshot
}

// lane is what is on its way from one server to another: votes, or one end of a link.
type lane struct {
	from, to *server
	parcels  []parcel
	end      *end              // where it arrives, nil for votes
	last     *fle.Notification // sent by this life of a server; a new connection begins with it
}

// parcel is one thing on its way.
type parcel struct {
	vote     *fle.Notification
	message  *zab.Message
	snapshot *replicadisk.Snapshot
	closes   bool
}

// end is one server's end of a link.
type end struct {
	id        zab.LinkID
	outgoing  bool
	observers bool // it came to the port for observers
	told      bool // of its being up
	closed    bool
	out       *lane // to the other end
}

func newWorld(t *testing.T, say func(string, ...any)) *world {
	return &world{
		t: t, say: say, first: 1, now: replica.Now{MonoMs: 1_000_000, WallMs: 1_700_000_000_000},
		opts: replica.Options{
			Zab:          zab.Options{TickMs: 1000, InitMs: 5000, SyncMs: 3000},
			Election:     fle.Config{ResendMinMs: 200, ResendMaxMs: 2000},
			SessionMinMs: 2000, SessionMaxMs: 20000, ExtendedTypes: true,
		},
		servers: map[quorum.ID]*server{}, cuts: map[[2]quorum.ID]bool{}, clients: map[session.ConnID]*client{},
		watcher: newWatcher(),
	}
}

// found makes n servers with empty disks and a configuration of all of them.
func (w *world) found(n int, observers ...quorum.ID) {
	text := ""
	for id := w.first; id < w.first+quorum.ID(n); id++ {
		text += w.line(id, slices.Contains(observers, id)) + "\n"
	}
	var err error
	w.config, err = ensemble.Parse(text + "version=0")
	must(w.t, err)
	for id := w.first; id < w.first+quorum.ID(n); id++ {
		w.add(id, slices.Contains(observers, id))
	}
}

// line is a server's line in a configuration.
func (w *world) line(id quorum.ID, observer bool) string {
	role := "participant"
	if observer {
		role = "observer"
	}
	return fmt.Sprintf("server.%d=10.0.0.%d:2888:3888:%s;2181", id, id, role)
}

// add makes a server with an empty disk.
func (w *world) add(id quorum.ID, observer bool) *server {
	s := &server{w: w, id: id, observer: observer, saved: w.config}
	w.servers[id] = s
	s.format(true)
	for _, other := range w.all() {
		if other != s {
			w.lanes = append(w.lanes, &lane{from: s, to: other}, &lane{from: other, to: s})
		}
	}
	return s
}

// with returns the configuration with one server more.
func (w *world) with(s *server) *ensemble.Config {
	text := w.line(s.id, s.observer)
	for i := range w.config.Members {
		text += "\n" + w.line(w.config.Members[i].ID, w.config.Members[i].Observer)
	}
	config, err := ensemble.Parse(text + "\nversion=0")
	must(w.t, err)
	return config
}

// all returns the servers in the order of their numbers.
func (w *world) all() []*server {
	var all []*server
	for _, s := range w.servers {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *server) int { return int(a.id - b.id) })
	return all
}

const dataDir = "/data"

// format empties the disk. A server without the mark may not begin a history, because it has
// lost the one that it had.
func (s *server) format(marked bool) {
	s.mem = vfs.NewMem()
	must(s.w.t, s.mem.MkdirAll(dataDir))
	must(s.w.t, s.mem.SyncDir("/"))
	if marked {
		f, err := s.mem.Create(dataDir + "/initialize")
		must(s.w.t, err)
		must(s.w.t, f.Sync())
		must(s.w.t, f.Close())
	}
	must(s.w.t, s.mem.SyncDir(dataDir))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *server) diskOptions() replicadisk.Options {
	return replicadisk.Options{
		Store:         datadir.Options{DataDir: dataDir, NoCreateDB: true, Log: txnlog.Options{}},
		ExtendedTypes: true, Ensemble: true, RecentMax: s.w.opts.Zab.HistoryMax,
	}
}

// start begins a process on the existing disk.
func (s *server) start() {
	var err error
	s.disk, err = replicadisk.Open(s.mem, s.diskOptions())
	must(s.w.t, err)
	found, err := s.disk.Recover()
	must(s.w.t, err)
	if found.Mismatches > 0 && len(s.w.watcher.spoilt) == 0 {
		s.w.t.Errorf("server %d: %d digests differ in its log, first at %s", s.id, found.Mismatches, zab.FormatZxid(found.FirstMismatch))
	}
	s.w.watcher.recovered(s, found.Stored.Last)
	opts := s.w.opts
	opts.Zab.ID, opts.Zab.Observer = s.id, s.observer
	s.alone = false // it has not asked the oracle yet
	s.replica = replica.New(opts, s.saved, found.Recovered, s.w.now)
	s.work, s.full, s.inbox, s.dialing, s.role, s.snapshot = nil, false, nil, nil, "", nil
	s.ends, s.linkID = map[zab.LinkID]*end{}, 0
	for _, l := range s.w.lanes {
		if l.end == nil && l.to == s && l.last != nil {
			l.parcels = append(l.parcels[:0], parcel{vote: l.last})
		}
	}
	s.once()
	s.step()
}

// stop ends the process. What it has sent arrives; then its links close.
func (s *server) stop() {
	s.replica = nil
	for _, o := range s.work {
		if o.snapshot != nil {
			o.snapshot.End()
		}
	}
	for _, e := range s.ends {
		if !e.closed {
			e.closed = true
			e.out.parcels = append(e.out.parcels, parcel{closes: true})
		}
	}
	for _, l := range s.w.lanes {
		if l.to == s {
			l.drop()
		}
		if l.from == s {
			l.last = nil
		}
	}
	for _, c := range s.w.sortedClients() {
		if c.server == s && !c.closed {
			c.lost()
		}
	}
	must(s.w.t, s.disk.Close())
}

// kill ends the process; the machine keeps what the process has written, and sends what it has
// sent.
func (s *server) kill() {
	old := s.mem
	s.mem = old.KillClone()
	s.stop()
}

// crash ends the machine: what it has not sent is lost, and what was not synced, except for a
// part.
func (s *server) crash(keepPercent int, seed int64) {
	old := s.mem
	s.mem = old.CrashClone(keepPercent, seed)
	for _, l := range s.w.lanes {
		if l.from == s {
			l.drop()
		}
	}
	s.stop()
}

// pass lets time go by in steps of a tick, and quiesces after each.
func (w *world) pass(ms int64) {
	for ; ms > 0; ms -= w.opts.Zab.TickMs {
		w.tick(min(ms, w.opts.Zab.TickMs), w.all())
		w.quiesce()
	}
}

// push adds an event and makes the replica step.
func (s *server) push(events ...replica.Event) {
	if s.replica != nil {
		s.inbox = append(s.inbox, events...)
		s.step()
	}
}

// step steps the replica until no more events arrive.
func (s *server) step() {
	for s.replica != nil && len(s.inbox) > 0 {
		s.once()
	}
}

func (s *server) once() {
	batch := s.inbox
	s.inbox = nil
	now := s.w.now
	if s.alone {
		now.PermittedMs = math.MaxInt64
	}
	effects := s.replica.Step(now, batch, s)
	s.w.watcher.stepped(s)
	for _, reason := range effects.Left {
		s.say("leaves: %s", reason)
		if s.snapshot != nil {
			s.snapshot.GiveUp()
		}
	}
	for _, op := range effects.Disk {
		s.queue(op)
	}
	for i := range effects.Links {
		s.link(&effects.Links[i])
	}
	for i := range effects.Votes {
		s.w.vote(s, &effects.Votes[i])
	}
	if c := effects.Ensembles.InForce; c != nil {
		if !s.unsaved {
			s.saved = c
		}
		s.say("configuration %s: %s", zab.FormatZxid(zk.Zxid(c.Version)), rolesOf(c))
	}
	s.tellRole()
}

// rolesOf names the servers of a configuration, observers in brackets.
func rolesOf(c *ensemble.Config) string {
	text := ""
	for i := range c.Members {
		if i > 0 {
			text += " "
		}
		if c.Members[i].Observer {
			text += fmt.Sprintf("[%d]", c.Members[i].ID)
		} else {
			text += fmt.Sprint(c.Members[i].ID)
		}
	}
	return text
}

func (s *server) say(format string, args ...any) {
	s.w.say("%d: "+format, append([]any{s.id}, args...)...)
}

var roles = map[zab.State]string{zab.Leading: "LEADS", zab.Following: "FOLLOWS", zab.Observing: "OBSERVES"}

// tellRole reports when the server begins to serve.
func (s *server) tellRole() {
	role := ""
	if s.replica.Serving() {
		role = fmt.Sprintf("%s epoch %d", roles[s.replica.Peer().State()], s.replica.Epoch())
	}
	if role != s.role && role != "" {
		s.w.watcher.elections++
		s.say("%s", role)
	}
	s.role = role
}

// queue queues an operation for the disk.
func (s *server) queue(op replica.DiskOp) {
	o := operation{DiskOp: op}
	switch op.Kind {
	case replica.DiskAppend:
		h, t, _, err := txn.Decode(op.Payload)
		must(s.w.t, err)
		s.w.watcher.appended(s, &op)
		s.detail("append %s %s", zab.FormatZxid(op.Zxid), replica.TxnText(s.w.name, &h, &t))
	case replica.DiskSetAccepted:
		s.detail("store accepted=%d", op.Epoch)
	case replica.DiskSetCurrent:
		s.detail("store current=%d", op.Epoch)
	case replica.DiskTruncate:
		s.detail("truncate the log after %s", zab.FormatZxid(op.Zxid))
	case replica.DiskSaveSnapshot:
		o.snapshot = replicadisk.Begin(s.replica.Tree(), s.replica.Leases())
		s.detail("replace the history by a snapshot of %s", zab.FormatZxid(op.Zxid))
	case replica.DiskReload:
		s.detail("read everything again")
	}
	s.work = append(s.work, o)
}

// detail prints what is of interest only while things go step by step.
func (s *server) detail(format string, args ...any) {
	if !s.w.watcher.brief {
		s.say(format, args...)
	}
}

// works does the oldest operation of the disk; false if there is none, or no space for it.
func (s *server) works() bool {
	if s.replica == nil || len(s.work) == 0 || s.full && s.work[0].Kind == replica.DiskAppend {
		return false
	}
	o := s.work[0]
	s.work = s.work[1:]
	event, err := s.disk.Do(&o.DiskOp, o.snapshot)
	must(s.w.t, err)
	s.w.watcher.done(s, &o, event)
	switch {
	case o.Kind == replica.DiskSync:
		s.detail("disk has %s", zab.FormatZxid(s.disk.Log().Synced()))
	case event != nil && event.Kind == replica.EventFailed:
		s.say("cannot truncate the log there")
	case event != nil && event.Kind == replica.EventRecovered:
		s.say("recovered %s", zab.FormatZxid(event.Recovered.Stored.Last))
	}
	if event != nil {
		s.push(*event)
	}
	return true
}

// link does what the replica wants done with another server.
func (s *server) link(effect *zab.Effect) {
	if effect.Kind == zab.EffectConnect {
		leader := effect.Server
		s.dialing, s.masters, s.untilMs = &leader, effect.Master, s.w.now.MonoMs+s.w.opts.Zab.InitMs
		return
	}
	e := s.ends[effect.Link]
	if effect.Kind == zab.EffectReadLog {
		records, more, ok := s.disk.ReadLog(effect.Zxid, effect.To)
		s.detail("reads its log for a learner at %s: %s", zab.FormatZxid(effect.Zxid), recordsText(records, ok))
		s.inbox = append(s.inbox, replica.Event{Kind: replica.EventLogRead, Link: effect.Link, Records: records, More: more, OK: ok})
		return
	}
	if e == nil || e.closed {
		return
	}
	switch effect.Kind {
	case zab.EffectSend:
		e.out.parcels = append(e.out.parcels, parcel{message: s.w.wired(&effect.Message, e.outgoing)})
	case zab.EffectClose:
		e.closed = true
		e.out.parcels = append(e.out.parcels, parcel{closes: true})
		s.down(e)
	case zab.EffectSendSnapshot:
		e.out.parcels = append(e.out.parcels, parcel{snapshot: replicadisk.Begin(s.replica.Tree(), s.replica.Leases())})
	}
}

func recordsText(records []zab.Record, ok bool) string {
	if !ok || len(records) == 0 {
		return "nothing of use"
	}
	return fmt.Sprintf("%s to %s", zab.FormatZxid(records[0].Zxid), zab.FormatZxid(records[len(records)-1].Zxid))
}

// down reports the end of a link, if its beginning was reported.
func (s *server) down(e *end) {
	delete(s.ends, e.id)
	e.closed = true
	if e.told {
		s.inbox = append(s.inbox, replica.Event{Kind: replica.EventLinkDown, Link: e.id})
	}
}

// dial makes the link that a server asks for; false if that is not possible now.
func (s *server) dial() bool {
	if s.replica == nil || s.dialing == nil {
		return false
	}
	leader := s.w.servers[*s.dialing]
	if leader == nil || leader.replica == nil || s.w.cut(s, leader) {
		if s.w.now.MonoMs < s.untilMs {
			return false
		}
		s.dialing = nil
		s.push(replica.Event{Kind: replica.EventLinkDown})
		return true
	}
	s.dialing = nil
	near, far := s.newEnd(true), leader.newEnd(false)
	far.observers = s.masters
	near.out = &lane{from: s, to: leader, end: far}
	far.out = &lane{from: leader, to: s, end: near}
	s.w.lanes = append(s.w.lanes, near.out, far.out)
	near.told = true
	s.push(replica.Event{Kind: replica.EventLinkUp, Link: near.id, Outgoing: true})
	return true
}

func (s *server) newEnd(outgoing bool) *end {
	s.linkID++
	e := &end{id: s.linkID, outgoing: outgoing}
	s.ends[e.id] = e
	return e
}

// vote puts a notification on its way: if several wait, only the newest counts.
func (w *world) vote(s *server, b *replica.OutgoingVote) {
	for _, l := range w.lanes {
		if l.end == nil && l.from == s && l.to.id == b.To {
			n := b.Notification
			l.last = &n
			l.parcels = append(l.parcels[:0], parcel{vote: &n})
		}
	}
}

func pairOf(a, b *server) [2]quorum.ID { return [2]quorum.ID{min(a.id, b.id), max(a.id, b.id)} }

func (w *world) cut(a, b *server) bool { return w.cuts[pairOf(a, b)] }

// moves takes the oldest parcel of a lane out; false if there is none.
func (l *lane) moves() bool {
	if len(l.parcels) == 0 || l.from.w.cut(l.from, l.to) {
		return false
	}
	p := l.parcels[0]
	l.parcels = l.parcels[1:]
	if l.to.replica == nil {
		return true
	}
	if p.vote != nil {
		l.from.toldTo(l.to, p.vote.String())
		l.to.push(replica.Event{Kind: replica.EventNotification, Server: l.from.id, Notification: p.vote})
		return true
	}
	l.arrive(&p)
	return true
}

func (s *server) toldTo(other *server, what string) {
	if !s.w.watcher.brief {
		s.w.say("%d -> %d %s", s.id, other.id, what)
	}
}

// arrive handles what arrives on a link.
func (l *lane) arrive(p *parcel) {
	s, e := l.to, l.end
	if e.closed {
		p.end()
		return
	}
	if !e.told {
		e.told = true
		s.inbox = append(s.inbox, replica.Event{Kind: replica.EventLinkUp, Link: e.id, Observers: e.observers})
	}
	switch {
	case p.closes:
		s.down(e)
	case p.message != nil:
		s.w.watcher.kinds[p.message.Kind]++
		s.w.watcher.sends(l.from, s, p.message)
		l.from.toldTo(s, messageText(l.from.w, p.message))
		s.inbox = append(s.inbox, replica.Event{Kind: replica.EventMessage, Link: e.id, Message: p.message})
	case p.snapshot != nil:
		s.load(e, p.snapshot)
	}
	s.step()
}

// load reads a snapshot that is written at the same time: it may have changes of transactions
// after its zxid.
func (s *server) load(e *end, snapshot *replicadisk.Snapshot) {
	var b bytes.Buffer
	if err := snapshot.Stream(&b, nil); err != nil {
		s.down(e) // its server has left the role
		return
	}
	state, err := replicadisk.LoadStream(&b, s.diskOptions())
	must(s.w.t, err)
	s.inbox = append(s.inbox, replica.Event{Kind: replica.EventLoaded, Link: e.id, State: state})
}

func (p *parcel) end() {
	if p.snapshot != nil {
		p.snapshot.End()
	}
}

func (l *lane) drop() {
	for i := range l.parcels {
		l.parcels[i].end()
	}
	l.parcels = nil
}

// wired is a message as it arrives: fields that its bytes cannot hold are missing.
func (w *world) wired(m *zab.Message, toLeader bool) *zab.Message {
	from := peerwire.FromLeader
	if toLeader {
		from = peerwire.FromLearner
	}
	b := peerwire.AppendMessage(nil, m, from)
	arrives, err := peerwire.DecodeMessage(b, len(b), from)
	if err != nil {
		w.t.Fatalf("%v of its own cannot be read: %v", m.Kind, err)
	}
	return &arrives
}

// messageText is a message with the details that readers of stories need.
func messageText(w *world, m *zab.Message) string {
	switch {
	case m.Kind == zab.KindRequest:
		return fmt.Sprintf("REQUEST %s %s", m.Request.Op, w.name(m.Request.Session))
	case m.Kind == zab.KindRevalidate && m.Valid:
		return "REVALIDATE " + w.name(m.Session) + " valid"
	case m.Kind == zab.KindRevalidate:
		return "REVALIDATE " + w.name(m.Session)
	case len(m.Touches) > 0:
		text := m.String() + " touched"
		for _, t := range m.Touches {
			text += " " + w.name(t.Session)
		}
		return text
	}
	return m.String()
}

// breakLinks ends the links between two servers; what is on its way is lost.
func (w *world) breakLinks(a, b *server) {
	for _, s := range []*server{a, b} {
		for _, e := range s.sortedEnds() {
			if e.out.to == a || e.out.to == b {
				e.out.drop()
				s.down(e)
			}
		}
		s.step()
	}
}

func (s *server) sortedEnds() []*end {
	var all []*end
	for _, e := range s.ends {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *end) int { return int(a.id) - int(b.id) })
	return all
}

// roundsMax is how often everything may move before it must be quiet; no time passes meanwhile.
const roundsMax = 1000

// deliver moves everything between servers until nothing is left to move.
func (w *world) deliver() {
	rounds := 0
	for moved := true; moved; rounds++ {
		if rounds > roundsMax && w.patient {
			return
		}
		if rounds > roundsMax {
			w.t.Fatalf("servers still have something to say to each other after %d rounds in no time", rounds)
		}
		moved = false
		for _, s := range w.all() {
			moved = s.dial() || moved
		}
		for i := 0; i < len(w.lanes); i++ {
			moved = w.lanes[i].moves() || moved
		}
		w.sweep()
	}
}

// sweep forgets lanes on which nothing can come any more.
func (w *world) sweep() {
	w.lanes = slices.DeleteFunc(w.lanes, func(l *lane) bool { return l.end != nil && len(l.parcels) == 0 && l.end.closed })
}

// quiesce lets disks and lanes continue until nothing is left to do.
func (w *world) quiesce() {
	for again := true; again; {
		w.deliver()
		again = false
		for _, s := range w.all() {
			again = s.works() || again
		}
	}
}

// tick lets time pass and reports it to servers.
func (w *world) tick(ms int64, servers []*server) {
	w.now.MonoMs += ms
	w.now.WallMs += ms
	for _, s := range servers {
		s.push(replica.Event{Kind: replica.EventTick})
	}
}

// name is a session's name in stories.
func (w *world) name(id zk.SessionID) string {
	if id == 0 {
		return "nobody"
	}
	at := slices.Index(w.names, id)
	if at < 0 {
		at = len(w.names)
		w.names = append(w.names, id)
	}
	return fmt.Sprintf("S%d", at+1)
}
