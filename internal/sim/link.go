package sim

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/conclave-project/conclave/internal/peerwire"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// link is one end of a connection between a learner and its leader: packets as bytes, and
// snapshots between them.
type link struct {
	p        *process
	id       zab.LinkID
	stream   *stream
	outgoing bool // the learner's end
	observes bool // it came in on the port for observers
	held     bool // a snapshot is being written: later packets wait
	waiting  []byte
	closing  bool
	ordering ordering
	early    bool    // of a mutant that does not wait for UPTODATE
	halved   bool    // of a mutant that has not sent the last ping
	loading  bool    // the state after a SNAP is still to come
	snapshot zk.Zxid // of that SNAP
	readMs   int64   // when something last came
	movedMs  int64   // when progress was last reported: encrypted.go
}

// toLink carries out the replica's effects that concern other servers.
func (p *process) toLink(e *zab.Effect) {
	if e.Kind == zab.EffectConnect {
		p.dialing++
		untilMs := p.w.nowMs + p.w.plan.InitMs
		if e.Master {
			untilMs = 0 // try only once: there are others
		}
		p.dial(e.Server, e.Master, p.dialing, untilMs)
		return
	}
	l := p.links[e.Link]
	if l == nil {
		p.answerAsPhantom(e)
		return
	}
	switch e.Kind {
	case zab.EffectSend:
		m := e.Message
		if m.Kind == zab.KindNewLeader {
			p.w.trouble.offers(p, l.stream.far)
		}
		l.mutateRole(&m)
		p.w.watcher.touches.sent(l, &m)
		if !l.orders(&m) {
			return
		}
		for range p.mutateMessage(l, &m) {
			p.w.note(p.node, "send", l.stream.far, m.Zxid, m.Kind.String())
			p.packet = peerwire.AppendMessage(p.packet[:0], &m, !senderOf(l.outgoing))
			l.write(p.packet)
		}
	case zab.EffectClose:
		l.closing = true
		l.finish()
	case zab.EffectSendSnapshot:
		l.sendSnapshot(e.Zxid)
	case zab.EffectReadLog:
		p.readLog(e.Link, e.Zxid, e.To)
	}
}

// senderOf returns the kind of sender whose packets an end of a link receives.
func senderOf(outgoing bool) peerwire.Sender {
	if outgoing {
		return peerwire.FromLeader
	}
	return peerwire.FromLearner
}

// redialMs is the pause between two attempts to reach a leader.
const redialMs = 50

// dial tries to reach a leader until a given time. A newer attempt ends an older one.
func (p *process) dial(leader quorum.ID, master bool, number int, untilMs int64) {
	p.later(p.random.between(0, p.delayMs()), func() {
		t := p.w.byID(leader)
		known := p.reachesLinks(t)
		if t.stray != nil {
			t = t.stray
		}
		switch {
		case p.dialing != number:
		case t.up && t != p && known && p.w.reachable(p.node, t.node):
			p.linkUp(t, master)
		case p.w.nowMs >= untilMs:
			p.push(replica.Event{Kind: replica.EventLinkDown})
		default:
			p.later(redialMs, func() { p.dial(leader, master, number, untilMs) })
		}
	})
}

func (p *process) linkUp(t *process, master bool) {
	near, far := p.w.connect(p.node, t.node, p.random, p.delayMs)
	far.slowMs, far.random = t.delayMs, t.random
	t.accept(far, false, master)
	p.accept(near, true, false)
}

// accept makes a link of one end of a new connection.
func (p *process) accept(s *stream, outgoing, observes bool) {
	p.linkID++
	l := &link{p: p, id: p.linkID, stream: s, outgoing: outgoing, observes: observes, readMs: p.w.nowMs}
	p.links[l.id] = l
	s.received, s.ended = l.read, l.down
	p.push(replica.Event{Kind: replica.EventLinkUp, Link: l.id, Outgoing: outgoing, Observers: observes})
}

// down handles the end of the link.
func (l *link) down() {
	if l.p.links[l.id] == l {
		delete(l.p.links, l.id)
		l.p.push(replica.Event{Kind: replica.EventLinkDown, Link: l.id})
	}
}

// write sends packets, or queues them behind the snapshot that is being written.
func (l *link) write(b []byte) {
	most := l.p.w.plan.LinkBytes
	if l.p.w.is(OutboxDrops) {
		most /= 16 // its drops must come before its bound
	}
	if l.queued()+len(b) > most {
		l.p.w.tally.Slow++
		l.p.note("too-slow", 0)
		if !l.p.w.is(OutboxDrops) {
			l.stream.reset()
		}
		return
	}
	if l.held {
		l.waiting = append(l.waiting, b...)
		return
	}
	l.stream.send(b)
	l.moves()
}

// queued returns how much waits behind the snapshots in transit: a receiver that does not
// read is disconnected, as in package peernet.
func (l *link) queued() int {
	if l.held || len(l.stream.other.parcels) > 0 {
		return len(l.waiting)
	}
	return len(l.stream.out)
}

// finish closes the link after everything was sent.
func (l *link) finish() {
	if l.closing && !l.held {
		delete(l.p.links, l.id)
		l.stream.close()
	}
}

// read reads whole packets, and the snapshot after a SNAP.
func (l *link) read() {
	l.readMs = l.p.w.nowMs
	s := l.stream
	for !s.closed {
		if l.loading {
			if !l.readSnapshot() {
				return
			}
			continue
		}
		n, whole, err := peerwire.PacketBytes(s.in, peerwire.DataBytesMax)
		if err != nil || whole && !l.packet(s.in[:n]) {
			l.p.w.fail(fmt.Errorf("server %v cannot read what %v sends: %w", s.self, s.far, err))
			return
		}
		if !whole {
			return
		}
		s.take(n)
	}
}

// packet passes a message to the replica; it returns false if it cannot be decoded.
func (l *link) packet(b []byte) bool {
	m, err := peerwire.DecodeMessage(bytes.Clone(b), peerwire.DataBytesMax, senderOf(l.outgoing))
	if errors.Is(err, peerwire.ErrUnknownKind) {
		return true
	}
	if err != nil {
		return false
	}
	p := l.p
	p.w.note(p.node, "receive", l.stream.far, m.Zxid, m.Kind.String())
	if l.early && m.Kind == zab.KindUpToDate {
		return true
	}
	switch m.Kind {
	case zab.KindSnap:
		l.loading, l.snapshot = true, m.Zxid
	case zab.KindDiff:
		p.w.tally.Diff++
	case zab.KindTrunc:
		p.w.tally.Trunc++
	}
	p.masterHands(&m)
	if l.masterAnswers(&m) {
		return true
	}
	p.w.watcher.touches.received(l, &m)
	p.push(replica.Event{Kind: replica.EventMessage, Link: l.id, Message: &m})
	l.acknowledges(&m)
	return true
}

// readSnapshot takes the state after a SNAP once it has arrived completely.
func (l *link) readSnapshot() bool {
	s := l.stream
	if len(s.parcels) == 0 || int64(len(s.in)) < s.parcels[0].bytes {
		return false
	}
	parcel := s.parcels[0]
	s.parcels = s.parcels[1:]
	p := l.p
	if parcel.from != s.passed {
		p.w.fail(fmt.Errorf("server %v waits for a snapshot at byte %d, it is at %d", s.self, s.passed, parcel.from))
		return false
	}
	r := bytes.NewReader(s.in[:parcel.bytes])
	state, err := p.loadState(r)
	if err == nil && r.Len() != 4+len(peerwire.SnapshotEnd) {
		err = fmt.Errorf("%d bytes are left", r.Len())
	}
	if err != nil {
		p.w.fail(fmt.Errorf("server %v cannot read the snapshot of %v: %w", s.self, s.far, err))
		return false
	}
	if p.w.trouble.isWrong(state.Tree()) {
		p.w.beyond()
		return false
	}
	s.take(int(parcel.bytes))
	p.note("loaded", l.snapshot)
	l.loading = false
	p.w.watcher.loading(p, l.id, s.far.id(), parcel.history)
	p.push(replica.Event{Kind: replica.EventLoaded, Link: l.id, State: state})
	return true
}

// readLog reads the log for a learner, one part at a time, each when the previous part was
// sent. Everything else continues meanwhile.
func (p *process) readLog(id zab.LinkID, zxid, to zk.Zxid) {
	p.awake(p.random.between(0, 4*int64(p.w.plan.DiskMs)), func() {
		l := p.links[id]
		if l == nil {
			return
		}
		if len(l.stream.out) > 0 {
			p.readLog(id, zxid, to)
			return
		}
		records, more, ok := p.turns.disk.ReadLog(zxid, to)
		if p.turns.crashed {
			p.turns.fatal(errPower)
			return
		}
		p.push(replica.Event{Kind: replica.EventLogRead, Link: id, Records: records, More: more, OK: ok})
	})
}
