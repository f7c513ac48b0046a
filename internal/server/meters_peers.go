package server

import (
	"sync"
	"sync/atomic"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/tally"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// progress records how far a server has come in finding its role, and which learners it is
// synchronizing. The loop owns it.
type progress struct {
	begun     bool
	elections int64 // elections decided
	looking   bool
	lookingMs int64 // since when
	syncing   bool
	syncMs    int64 // since when it has been receiving the leader's history

	learners map[zab.LinkID]zab.Kind // learners that are being synchronized: KindSnap or KindDiff
}

// noteProgress measures elections and the synchronization of this server, in steps of the loop:
// one that begins and ends in the same step counts as 0.
func (m *meters) noteProgress(state zab.State, phase zab.Phase, elections, nowMs int64) {
	w := &m.way
	if !w.begun {
		w.begun, w.looking, w.lookingMs = true, true, nowMs
	}
	if elections > w.elections {
		took := int64(0)
		if w.looking {
			took = nowMs - w.lookingMs
		}
		m.elections.note(took, int(elections-w.elections))
		w.elections, w.looking = elections, false
	}
	if state == zab.Looking && !w.looking {
		w.looking, w.lookingMs = true, nowMs
	}
	learns := state == zab.Following || state == zab.Observing
	switch {
	case learns && phase == zab.Synchronization:
		if !w.syncing {
			w.syncing, w.syncMs = true, nowMs
		}
	case learns && phase == zab.Broadcast && w.syncing:
		w.syncing = false
		if took := nowMs - w.syncMs; state == zab.Observing {
			m.observerSyncs.note(took, 1)
		} else {
			m.followerSyncs.note(took, 1)
		}
	case phase != zab.Broadcast:
		w.syncing = false
	}
}

// noteSent examines what a leader sends to a learner: how the learner is synchronized, and that
// it may now serve its clients. The loop calls it.
func (m *meters) noteSent(link zab.LinkID, kind zab.Kind) {
	switch kind {
	case zab.KindSnap:
		m.snaps.Add(1)
		m.beginSync(link, kind)
	case zab.KindDiff, zab.KindTrunc:
		m.diffs.Add(1)
		m.beginSync(link, zab.KindDiff)
	case zab.KindUpToDate:
		m.endSync(link)
	}
}

func (m *meters) beginSync(link zab.LinkID, kind zab.Kind) {
	if m.way.learners == nil {
		m.way.learners = map[zab.LinkID]zab.Kind{}
	}
	m.way.learners[link] = kind
	m.noteUnderWay(kind)
}

// endSync forgets a learner if it is being synchronized.
func (m *meters) endSync(link zab.LinkID) {
	kind, there := m.way.learners[link]
	if there {
		delete(m.way.learners, link)
		m.noteUnderWay(kind)
	}
}

func (m *meters) noteUnderWay(kind zab.Kind) {
	n := int64(0)
	for _, k := range m.way.learners {
		if k == kind {
			n++
		}
	}
	if kind == zab.KindSnap {
		m.snapsUnderWay.note(n, 1)
	} else {
		m.diffsUnderWay.note(n, 1)
	}
}

// received measures messages from other servers where they arrive.
type received struct {
	leader    atomic.Uint64 // the link of the leader with which this server is synchronized
	_         [56]byte      // padding: what follows is written with each portion of messages, by another core than the loop's
	proposals atomic.Int64
	commits   atomic.Int64
	delays    distribution // of proposals, in milliseconds
	_         [64]byte

	sent proposalTimes
	acks struct {
		sync.Mutex
		of map[quorum.ID]*distribution // by follower, in milliseconds
	}
	links sync.Map // zab.LinkID -> *linkReceived
}

// timedEvery is how many proposals there are for each one whose acks are timed, and timedMax is
// how many of those are remembered: the ack of an older one is not timed.
const (
	timedEvery = 8
	timedMax   = 4096
)

// proposalTimes records when the latest proposals were made whose acks are timed.
type proposalTimes struct {
	slots atomic.Pointer[[timedMax]proposalTime] // nil until the first one
}

type proposalTime struct{ zxid, ms atomic.Int64 }

// propose records a proposal. The loop calls it.
func (t *proposalTimes) propose(zxid zk.Zxid, nowMs int64) {
	if zxid%timedEvery != 0 {
		return
	}
	slots := t.slots.Load()
	if slots == nil {
		slots = new([timedMax]proposalTime)
		t.slots.Store(slots)
	}
	slot := &slots[zxid/timedEvery%timedMax]
	slot.zxid.Store(0)
	slot.ms.Store(nowMs)
	slot.zxid.Store(int64(zxid))
}

// madeMs returns when a proposal was made; false if it is not timed.
func (t *proposalTimes) madeMs(zxid zk.Zxid) (int64, bool) {
	slots := t.slots.Load()
	if slots == nil || zxid <= 0 || zxid%timedEvery != 0 {
		return 0, false
	}
	slot := &slots[zxid/timedEvery%timedMax]
	if slot.zxid.Load() != int64(zxid) {
		return 0, false
	}
	ms := slot.ms.Load()
	if slot.zxid.Load() != int64(zxid) {
		return 0, false // the slot was used for another one meanwhile
	}
	return ms, true
}

// portion is what arrived together on a link.
type portion struct {
	link               *linkReceived
	inStep             bool  // this server is synchronized with the leader that it came from
	wallMs, monoMs     int64 // when it arrived, 0 until that is needed
	proposals, commits int64
	delays             run
}

// linkReceived is what is known about a link, whose messages come one after another.
type linkReceived struct {
	last zk.Zxid       // zxid of the last ACK or COMMIT
	acks *distribution // of the server at the other end; nil until that is known
}

// linkOf returns what is known about a link.
func (r *received) linkOf(link zab.LinkID) *linkReceived {
	if l, ok := r.links.Load(link); ok {
		return l.(*linkReceived)
	}
	l, _ := r.links.LoadOrStore(link, new(linkReceived))
	return l.(*linkReceived)
}

// spans returns how many records an ACK or a COMMIT covers: on a cumulative link (zab.Hello)
// also those before it. The first one of an epoch counts as one.
func (l *linkReceived) spans(m *zab.Message) int64 {
	last := l.last
	l.last = m.Zxid
	if last.Epoch() != m.Zxid.Epoch() || m.Zxid <= last {
		return 1
	}
	return int64(m.Zxid - last)
}

// arrived measures one message; timeMs is when its transaction was decided. It returns how many
// records the message covers.
func (p *peers) arrived(of *portion, link zab.LinkID, m *zab.Message, timeMs int64) (records int64) {
	s := p.server
	records = 1
	switch m.Kind {
	case zab.KindProposal:
		if !of.inStep {
			return 1 // part of the history, whose age means nothing
		}
		of.proposals++
		if of.wallMs == 0 {
			of.wallMs = s.cfg.Wall().UnixMilli()
		}
		if took := of.wallMs - timeMs; took >= 0 {
			of.delays.note(took)
		}
	case zab.KindCommit, zab.KindCommitAndActivate, zab.KindInform, zab.KindInformAndActivate:
		records = of.link.spans(m)
		if of.inStep {
			of.commits += records
		}
	case zab.KindUpToDate:
		of.link.last = 0 // what came by SNAP is not included in the next COMMIT
		of.inStep = true
		s.received.leader.Store(uint64(link))
	case zab.KindAck:
		records = of.link.spans(m)
		p.timeAcks(of, m.Zxid, records)
	case zab.KindFollowerInfo:
		p.introduced(of.link, m.Hello.Server)
	}
	return records
}

// timeAcks records how long ago the timed proposals were made, among the given number of
// records up to zxid.
func (p *peers) timeAcks(of *portion, zxid zk.Zxid, records int64) {
	if of.link.acks == nil {
		return
	}
	records = min(records, timedEvery*timedMax) // earlier ones are not timed, and any server may claim to acknowledge any number
	for z := zxid - zxid%timedEvery; z > zxid-zk.Zxid(records); z -= timedEvery {
		madeMs, timed := p.server.received.sent.madeMs(z)
		if !timed {
			continue
		}
		if of.monoMs == 0 {
			of.monoMs = p.server.monoMs()
		}
		of.link.acks.note(max(0, of.monoMs-madeMs), 1)
	}
}

// introduced finds the acks of the server at the other end of a link. A server of no
// configuration has none, because its acks do not count either.
func (p *peers) introduced(link *linkReceived, id quorum.ID) {
	if p.known.Load().line(id) == nil {
		return
	}
	r := &p.server.received
	r.acks.Lock()
	defer r.acks.Unlock()
	d := r.acks.of[id]
	if d == nil {
		if r.acks.of == nil {
			r.acks.of = map[quorum.ID]*distribution{}
		}
		d = &distribution{}
		r.acks.of[id] = d
	}
	link.acks = d
}

// note counts a portion.
func (r *received) note(of *portion) {
	of.delays.end()
	if of.proposals > 0 {
		r.proposals.Add(of.proposals)
	}
	if of.commits > 0 {
		r.commits.Add(of.commits)
	}
}

// report adds what was received to a report.
func (r *received) report(out *Meters) {
	out.Proposals, out.Commits, out.ProposalDelays = r.proposals.Load(), r.commits.Load(), r.delays.report()
	r.acks.Lock()
	defer r.acks.Unlock()
	out.AckDelays = make(map[quorum.ID]tally.Distribution, len(r.acks.of))
	for id, d := range r.acks.of {
		out.AckDelays[id] = d.report()
	}
}

// timed reports whether to measure the time until a record is durable: only for a server whose
// ack counts. The loop calls it.
func timed(r *replica.Replica) bool {
	return r.Config() != nil && r.Serving() && r.Peer().State() != zab.Observing
}
