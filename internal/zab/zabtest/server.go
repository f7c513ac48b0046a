package zabtest

import (
	"slices"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// server is one server: a peer, its disk, its tree, and its connections.
type server struct {
	w        *World
	id       quorum.ID
	observer bool
	up       bool
	life     int // grows with every start: what was planned for an earlier life is void
	peer     *zab.Peer
	disk     disk
	tree     []zab.Record // what it would show
	serving  bool
	loading  zab.LinkID // the link on which a snapshot is expected
	arrived  map[zab.LinkID][]zab.Record
	pipes    map[zab.LinkID]*pipe
	inbox    []zab.Event
	woken    bool
	wanted   int   // proposals to make at the next step
	syncs    []int // of its clients: how many transactions each must see
	needAll  bool
	untilMs  int64 // the process stalls until then
	shown    int   // transactions that this process has shown
	asks     int   // questions whether a session may stay, without an answer so far
}

func newServer(w *World, id quorum.ID, observer bool) *server {
	return &server{w: w, id: id, observer: observer}
}

// start recovers from disk: the tree has the whole log, as in ZooKeeper.
func (s *server) start() {
	s.up = true
	s.life++
	d := &s.disk
	s.tree, s.pipes, s.inbox, s.syncs, s.asks = d.state(), map[zab.LinkID]*pipe{}, nil, nil, 0
	s.arrived = nil
	s.serving, s.woken, s.loading, s.wanted = false, false, 0, 0
	recent := d.log
	if n := 20; len(recent) > n && !s.w.opts.Calm {
		recent = recent[len(recent)-n:]
	}
	s.peer = zab.New(zab.Options{
		ID: s.id, Life: int64(s.life)<<8 | int64(s.id), Observer: s.observer, TickMs: tickMs, InitMs: initMs, SyncMs: syncMs,
		HistoryMax: max(s.w.opts.HistoryMax, 1), CounterMax: s.w.opts.CounterMax, Masters: s.w.opts.Masters,
		OneByOne: s.w.opts.oneByOne(s.id),
	}, s.w.config(), zab.Stored{
		Accepted: d.accepted, Current: max(d.current, min(d.accepted, d.last().Epoch())), Last: d.last(),
		Recent: slices.Clone(recent), NeedSnapshot: s.needAll,
	})
	if !s.w.opts.Calm {
		s.ticks(s.life)
		s.seekLeader(s.life)
	}
}

// ticks tells the peer the time.
func (s *server) ticks(life int) {
	s.w.after(50, func() {
		if s.life == life && s.up {
			s.push(zab.Event{Kind: zab.EventTick})
			s.ticks(life)
		}
	})
}

// push adds an event. A moment later the peer is stepped with all events that are there.
func (s *server) push(e zab.Event) {
	if !s.up {
		return
	}
	s.inbox = append(s.inbox, e)
	s.wake()
}

func (s *server) wake() {
	if s.woken {
		return
	}
	s.woken = true
	life := s.life
	pause := int64(0)
	if !s.w.opts.Calm {
		pause = int64(s.w.chance.below(3))
	}
	s.w.after(pause, func() {
		if s.life != life || !s.up {
			return
		}
		if s.untilMs > s.w.nowMs { // stopped: everything waits, and is delivered together
			s.woken = false
			s.w.after(s.untilMs-s.w.nowMs, s.wake)
			return
		}
		s.step()
	})
}

func (s *server) step() {
	s.woken = false
	batch := s.inbox
	s.inbox = nil
	for i := range s.wanted {
		if s.serving && s.peer.State() == zab.Leading {
			zxid := s.peer.NextZxid() + zk.Zxid(i)
			batch = append(batch, zab.Event{Kind: zab.EventPropose, Record: zab.Record{Zxid: zxid, Payload: s.w.payload()}})
		}
	}
	s.wanted = 0
	life := s.life
	for _, e := range slices.Clone(s.peer.Step(s.w.nowMs, batch)) {
		if s.life != life {
			return // reloaded
		}
		s.carryOut(&e)
	}
}

func (w *World) payload() []byte {
	w.proxies++
	n := w.proxies
	return []byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}
}

// carryOut does what a peer wants done.
func (s *server) carryOut(e *zab.Effect) {
	if e.Kind != zab.EffectSend && e.Kind != zab.EffectClose {
		s.w.note("%d: %s", s.id, e.String())
	}
	switch e.Kind {
	case zab.EffectAppend, zab.EffectSync, zab.EffectSetAccepted, zab.EffectSetCurrent, zab.EffectTruncate:
		s.w.opts.Mutant.put(s, operation{Effect: *e})
		if e.Kind == zab.EffectSetCurrent {
			s.w.crashAtEpoch(s)
		}
	case zab.EffectSaveSnapshot:
		s.w.opts.Mutant.put(s, operation{*e, slices.Clone(s.tree)})
	case zab.EffectSend:
		s.send(e)
	case zab.EffectClose:
		s.close(e.Link)
	case zab.EffectConnect:
		s.w.connect(s, e.Server, e.Master)
	case zab.EffectSendSnapshot:
		if p := s.pipes[e.Link]; p != nil {
			p.send(frame{isTree: true, snapshot: slices.Clone(s.tree)})
		}
	case zab.EffectLoadSnapshot:
		s.loading, s.tree = e.Link, nil
		if tree, here := s.arrived[e.Link]; here {
			s.takeTree(e.Link, tree)
		}
	case zab.EffectReadLog:
		s.readLog(e)
	default:
		s.carryOutForClients(e)
	}
}

// carryOutForClients carries out effects that concern the tree, clients and the role.
func (s *server) carryOutForClients(e *zab.Effect) {
	switch e.Kind {
	case zab.EffectDeliver:
		if n := len(s.tree); n == 0 || s.tree[n-1].Zxid < e.Record.Zxid { // otherwise the snapshot had it
			s.tree = append(s.tree, e.Record)
			s.w.delivered(s)
		}
	case zab.EffectServe:
		s.serving = true
		s.w.served(s, e.Epoch)
	case zab.EffectLeave:
		s.leave(e)
	case zab.EffectRequest:
		switch {
		case s.peer.State() != zab.Leading: // an observer master passes it on
			s.push(zab.Event{Kind: zab.EventForward, Link: e.Link, Request: e.Request})
			return
		case e.Request.Op == zk.OpSync:
			s.push(zab.Event{Kind: zab.EventSync, Link: e.Link})
			return
		}
		s.wanted++
		s.wake()
	case zab.EffectRevalidate, zab.EffectRevalidated:
		s.revalidate(e)
	case zab.EffectTouch:
		s.touched()
	case zab.EffectSynced:
		s.w.synced(s)
	}
}

func (s *server) send(e *zab.Effect) {
	s.w.checkSend(s, &e.Message)
	switch e.Message.Kind {
	case zab.KindDiff:
		s.w.tally.Diff++
	case zab.KindTrunc:
		s.w.tally.Trunc++
	case zab.KindSnap:
		s.w.tally.Snap++
	}
	if p := s.pipes[e.Link]; p != nil && !s.w.opts.Mutant.withholds(s, e.Message.Kind) {
		m := e.Message
		p.send(frame{message: &m})
	}
}

// takeTree is called when a snapshot has arrived.
func (s *server) takeTree(link zab.LinkID, tree []zab.Record) {
	if s.loading == link {
		s.tree, s.loading = slices.Clone(tree), 0
		return
	}
	s.arrived = map[zab.LinkID][]zab.Record{link: tree} // after a SNAP that the peer has not seen yet
}

// readLog answers ReadLog as a store would: from the newest record that is not after the
// requested zxid, if the log has one.
func (s *server) readLog(e *zab.Effect) {
	s.w.tally.LogReads++
	log := s.disk.log
	first := 0
	for first < len(log) && first+1 < len(log) && log[first+1].Zxid <= e.Zxid {
		first++
	}
	ok := len(log) > 0 && log[first].Zxid <= e.Zxid
	records := slices.Clone(log[first:])
	life, link := s.life, e.Link
	s.w.after(s.w.delay(50), func() {
		if s.life == life {
			s.push(zab.Event{Kind: zab.EventLogRead, Link: link, Records: records, OK: ok})
		}
	})
}

// leave ends a role. With Reload the server recovers from its disk, after all pending
// operations.
func (s *server) leave(e *zab.Effect) {
	s.serving, s.syncs, s.wanted, s.loading, s.asks = false, nil, 0, 0, 0
	s.needAll = e.Reason == zab.ReasonCannotTruncate
	if !e.Reload {
		return
	}
	s.w.tally.Reloads++
	for i := range s.disk.pending {
		s.disk.do(s, &s.disk.pending[i])
	}
	s.disk.pending, s.disk.busy = nil, false
	tree := s.tree
	s.start()
	if s.w.opts.Mutant.keepsTree() {
		s.tree = tree
	}
}

// Crash ends a server's process: what was not synced may be lost.
func (w *World) Crash(id quorum.ID) {
	s := w.server(id)
	if !s.up {
		return
	}
	w.note("crash %d", id)
	w.tally.Crashes++
	for _, link := range s.linkIDs() {
		s.pipes[link].reset()
	}
	s.up, s.serving, s.needAll, s.shown = false, false, false, 0
	s.life++
	s.disk.crash(s)
}

// Restart starts a server that has crashed.
func (w *World) Restart(id quorum.ID) {
	if s := w.server(id); !s.up {
		w.note("restart %d", id)
		s.start()
	}
}

func (s *server) linkIDs() []zab.LinkID {
	var ids []zab.LinkID
	for id := range s.pipes {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// revalidate answers a learner whether a session may stay, or takes the answer. The number of a
// session is that of the server that asked, which must receive the answer.
func (s *server) revalidate(e *zab.Effect) {
	switch {
	case e.Kind == zab.EffectRevalidate && s.peer.State() == zab.Leading:
		s.push(zab.Event{Kind: zab.EventRevalidated, Link: e.Link, Session: e.Session, OK: true})
	case e.Kind == zab.EffectRevalidate:
		s.push(zab.Event{Kind: zab.EventRevalidate, Link: e.Link, Session: e.Session})
	case e.Link != 0:
		s.push(zab.Event{Kind: zab.EventRevalidated, Link: e.Link, Session: e.Session, OK: e.OK})
	default:
		s.asks--
		s.w.check(s.asks >= 0 && e.Session == zk.SessionID(s.id), "server %d gets the answer for a session of server %d", s.id, e.Session)
		s.w.tally.Revalidated++
	}
}

// revalidates asks the leader whether a session may stay.
func (s *server) revalidates() {
	if s.serving && s.peer.State() != zab.Leading {
		s.asks++
		s.push(zab.Event{Kind: zab.EventRevalidate, Session: zk.SessionID(s.id)})
	}
}

// touched takes the sessions that a learner has gathered. An observer master passes them on at
// once.
func (s *server) touched() {
	if s.peer.State() != zab.Leading {
		s.push(zab.Event{Kind: zab.EventTouched})
	}
}
