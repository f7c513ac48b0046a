package zab

import (
	"slices"

	"github.com/conclave-project/conclave/internal/invariant"
	"github.com/conclave-project/conclave/zk"
)

// plan is how a learner is synchronized.
type plan struct {
	mode   Kind     // KindDiff, KindTrunc or KindSnap; 0 to read the log on disk first
	target zk.Zxid  // the zxid in that message
	rest   []Record // committed records to send after it
}

// choose plans the synchronization from the learner's last zxid and the history in memory. Its
// cases are those of ZooKeeper's LearnerHandler.syncFollower, so that Java learners see nothing
// new.
func (p *Peer) choose(peer zk.Zxid) plan {
	last := p.Committed()
	committed := p.history.upTo(last)
	low, high := last, last
	if len(committed) > 0 {
		low, high = committed[0].Zxid, committed[len(committed)-1].Zxid
	}
	switch {
	case p.opts.ForceSnapshot:
		return plan{mode: KindSnap}
	case peer == last:
		return plan{mode: KindDiff, target: peer}
	case peer > high && peer.Counter() != 0:
		// What the learner has beyond high was never committed. Its log can be truncated at
		// high, because both logs begin with the history of the last established epoch.
		return plan{mode: KindTrunc, target: high}
	case low <= peer && peer <= high:
		return p.walk(committed, peer, high)
	case peer < low:
		return plan{target: low}
	}
	return plan{mode: KindSnap}
}

// walk looks for the learner's place in the committed records. The corresponding method of
// ZooKeeper's (LearnerHandler.queueCommittedProposals) can also find a place inside an epoch of
// which it has only later records, and truncates there. Records without a gap (zab-Z4) have no
// such place.
func (p *Peer) walk(committed []Record, peer, high zk.Zxid) plan {
	for i, r := range committed {
		switch {
		case r.Zxid < peer:
		case r.Zxid == peer:
			return p.diff(high, committed[i+1:])
		case peer.Counter() == 0:
			// The learner led that epoch and proposed nothing, so no record has this zxid.
			return p.diff(high, committed[i:])
		default:
			return plan{mode: KindSnap} // the learner has a tail of an epoch that has ended: never truncate across epochs
		}
	}
	return plan{mode: KindSnap}
}

// diff plans to send the records up to high, or a snapshot if the records are larger than what
// memory may hold (Options.HistoryBytes). All records leave in one step, and a link on which
// too much data waits is closed: the learner would reconnect and get the same records again
// (peernet: LinksOptions.QueueBytesMax). A snapshot is written only as fast as the link accepts
// it.
func (p *Peer) diff(high zk.Zxid, records []Record) plan {
	if payloadBytes(records) > p.opts.HistoryBytes {
		return plan{mode: KindSnap}
	}
	return plan{KindDiff, high, records}
}

// synchronize sends a learner what it lacks, or has the log read first.
func (p *Peer) synchronize(l *link) {
	pl := p.choose(l.peer)
	if l.needsAll && p.Committed() == 0 {
		pl = plan{mode: KindSnap} // an empty history, for a log that may not be empty
	}
	switch late := p.lead != nil && !l.cumulative && l.peer.Epoch() < p.lead.epoch; {
	case pl.mode != KindTrunc:
	case late && p.canSpare(l):
		p.lead.held = true
		return
	case pl.target.Counter() == 0 && pl.target > 0, late && l.peer.Epoch() > pl.target.Epoch():
		pl = plan{mode: KindSnap} // no log has a record of that zxid, or the learner's log may begin with the tail itself
	}
	if p.lead != nil && p.lead.isWrong(l) {
		pl = plan{mode: KindSnap} // its log is sound, but its tree is wrong
	}
	if pl.mode != 0 {
		p.sendHistory(l, pl)
		return
	}
	l.stage = linkReading
	p.emit(Effect{Kind: EffectReadLog, Link: l.id, Zxid: l.peer, To: pl.target})
}

// Holds reports whether learners wait for a transaction of this leader's epoch. They are
// learners on links that are not cumulative, such as Apache servers, whose logs have more of an
// older epoch than the leader's.
//
// When such a server is told to truncate its log, it keeps what is in a snapshot of its own,
// and it keeps the first record after the place if its log does not have that place. When it is
// sent a snapshot, it keeps its log beside it, and reads the records with higher zxids again.
// So it is sent a snapshot whose zxid is above everything it has, unless no client could be
// served until then.
func (p *Peer) Holds() bool { return p.lead != nil && p.lead.held && p.lead.stage == leaderServing }

// canSpare reports whether the leader serves, or can come to serve, without a learner.
func (p *Peer) canSpare(l *link) bool {
	return p.lead.stage == leaderServing || p.verifier(p.history.last).Enough(p.participants(true, func(o *link) bool {
		return o != l && (o.stage > linkAgreed || o.stage == linkAgreed && (o.cumulative || o.peer <= p.Committed()))
	}))
}

// goOnHeld synchronizes the learners that were held, once there is a transaction of this epoch
// or the leader needs them.
func (p *Peer) goOnHeld() {
	if !p.lead.held || p.lead.stage == leaderServing && p.lead.committed.Epoch() < p.lead.epoch {
		return
	}
	p.lead.held = false
	for _, l := range slices.Clone(p.lead.links) {
		if l.stage == linkAgreed {
			p.synchronize(l)
		}
	}
}

// onLogRead continues a synchronization with records from disk. The history in memory has moved
// on meanwhile. If the two no longer meet (ZOOKEEPER-2418), or the records from disk do not
// contain the learner's place, a snapshot is sent. If a part has already been sent, it cannot
// be taken back, and the link is closed instead.
//
// A log is sent in parts, each in a step of its own, because nobody is pinged during a step and
// so a step must not take long.
func (p *Peer) onLogRead(e *Event) {
	l := p.served(e.Link)
	if l == nil || l.stage != linkReading {
		return
	}
	pl := p.goOn(l, e)
	switch {
	case l.begun && pl.mode == KindSnap:
		p.drop(l)
	case e.More && pl.mode == KindDiff:
		p.sendPart(l, pl)
	default:
		p.sendHistory(l, pl)
	}
}

// goOn plans what to send a learner of the records from disk. The last part also includes the
// records in memory. A DIFF that has begun goes on regardless of its size (see diff): if it
// were abandoned, the learner would be sent the same records again, with the same result.
func (p *Peer) goOn(l *link, e *Event) plan {
	records := e.Records
	if !e.More {
		records = p.join(records)
	}
	pl := plan{mode: KindSnap}
	switch {
	case !e.OK || !gapless(records) || len(records) == 0:
	case !l.begun && records[0].Zxid <= l.peer:
		pl = p.walk(records, l.peer, p.Committed())
	case l.begun:
		at := slices.IndexFunc(records, func(r Record) bool { return r.Zxid == l.queued })
		if at >= 0 {
			pl = plan{mode: KindDiff, rest: records[at+1:]}
		}
	}
	if e.More && len(pl.rest) == 0 {
		return plan{mode: KindSnap} // this part makes no progress
	}
	return pl
}

// sendPart sends a part of what the learner lacks, and then has the next part read.
func (p *Peer) sendPart(l *link, pl plan) {
	p.beginHistory(l, pl)
	l.begun = true
	p.moves(l)
	low := p.Committed()
	if committed := p.history.upTo(low); len(committed) > 0 {
		low = committed[0].Zxid
	}
	p.emit(Effect{Kind: EffectReadLog, Link: l.id, Zxid: l.queued, To: low})
}

// gapless reports whether records follow one another.
func gapless(records []Record) bool {
	for i := 1; i < len(records); i++ {
		if !follows(records[i-1].Zxid, records[i].Zxid) {
			return false
		}
	}
	return true
}

// join puts the records from disk before the committed records in memory. It returns nil if
// there is a gap anywhere. The two must have a record in common, or be neighbours within one
// epoch. The first record of an epoch is no proof that they meet: it may follow any record, so
// when memory has moved on nobody can tell how many records came before it.
func (p *Peer) join(disk []Record) []Record {
	if !gapless(disk) {
		return nil
	}
	all := slices.Clone(disk)
	meets := len(disk) == 0
	for _, r := range p.history.upTo(p.Committed()) {
		last := zk.NoZxid
		if len(all) > 0 {
			last = all[len(all)-1].Zxid
		}
		switch {
		case r.Zxid <= last:
			meets = meets || r.Zxid == last
		case len(all) == 0, follows(last, r.Zxid) && (meets || r.Zxid.Epoch() == last.Epoch()):
			all, meets = append(all, r), true
		default:
			return nil
		}
	}
	if len(all) == 0 || all[len(all)-1].Zxid != p.Committed() {
		return nil
	}
	return all
}

// sendHistory sends everything up to NEWLEADER and makes the learner take part in what is
// proposed from now on. All of this happens in one step, so that nothing is lost between the
// history and the stream of proposals (ZOOKEEPER-962).
func (p *Peer) sendHistory(l *link, pl plan) {
	if pl.mode == KindSnap {
		pl.target = p.delivered
		pl.rest = p.history.after(p.delivered)
		pl.rest = pl.rest[:len(pl.rest)-len(p.history.after(p.Committed()))]
	}
	p.beginHistory(l, pl)
	if !l.observer {
		for _, r := range p.history.after(p.lead.committed) {
			p.propose(l, r)
		}
	}
	l.stage, l.told = linkSyncing, p.Committed()
	p.send(l.id, Message{Kind: KindNewLeader, Zxid: zk.MakeZxid(p.servedEpoch(), 0), Payload: p.toldConfig().Text})
}

// beginHistory tells the learner how it is synchronized, unless it knows already, and sends
// records.
func (p *Peer) beginHistory(l *link, pl plan) {
	if !l.begun {
		p.send(l.id, Message{Kind: pl.mode, Zxid: pl.target})
		l.queued = pl.target
		if pl.mode == KindDiff {
			l.queued = l.peer
		}
	}
	if pl.mode == KindSnap {
		p.emit(Effect{Kind: EffectSendSnapshot, Link: l.id, Zxid: pl.target})
	}
	for _, r := range pl.rest {
		p.propose(l, r)
		p.send(l.id, Message{Kind: KindCommit, Zxid: r.Zxid})
	}
}

// propose sends one record to one learner (zab-Z8).
func (p *Peer) propose(l *link, r Record) {
	invariant.Check(follows(l.queued, r.Zxid), "zab: gap in what a learner is sent (zab-Z8)")
	l.queued = r.Zxid
	if l.waitsFor == 0 && !l.observer && r.Zxid > p.lead.committed {
		l.waitsFor, l.waitsMs = r.Zxid, p.nowMs
	}
	p.send(l.id, Message{Kind: KindProposal, Zxid: r.Zxid, Payload: r.Payload})
}

// leaderAckNewLeader handles the ack of NEWLEADER. Java 3.6 to 3.9.1 may send acks of proposals
// before it (ZOOKEEPER-4685): these are remembered, and count once the learner is synchronized.
func (p *Peer) leaderAckNewLeader(l *link, m *Message) {
	if m.Zxid != zk.MakeZxid(p.lead.epoch, 0) {
		p.noteAck(l, m.Zxid)
		return
	}
	l.stage = linkSynced
	if p.lead.stage == leaderServing {
		p.admit(l)
		p.tryCommit()
		return
	}
	p.tryEstablished()
}

// tryEstablished begins the broadcast when a quorum has the leader's history, which is
// committed by that.
func (p *Peer) tryEstablished() {
	ld := p.lead
	synced := p.participants(true, func(l *link) bool { return l.stage >= linkSynced })
	if ld.stage != leaderSyncing || !p.enough(p.verifier(p.history.last), synced) {
		return
	}
	ld.enter(leaderServing, p.nowMs)
	ld.checkMs = p.nowMs + p.opts.TickMs
	p.phase = Broadcast
	ld.proposed = zk.MakeZxid(ld.epoch, 0) // ZOOKEEPER-1319
	for _, r := range p.history.after(p.delivered) {
		p.deliver(r)
	}
	if !p.activateOld() {
		return
	}
	p.emit(Effect{Kind: EffectServe, Epoch: ld.epoch})
	for _, l := range ld.links {
		if l.stage == linkSynced {
			p.admit(l)
		}
	}
}

// admit lets a synchronized learner serve its clients. The commits that it has missed follow:
// if they came between NEWLEADER and UPTODATE, they would end the synchronization of older Java
// followers (ZOOKEEPER-4394).
func (p *Peer) admit(l *link) {
	l.stage, l.receivedMs, l.waitsMs = linkServing, p.nowMs, p.nowMs
	p.replaced(l)
	p.send(l.id, Message{Kind: KindUpToDate, Zxid: zk.NoZxid})
	if l.observer {
		return
	}
	untold := 0
	for z := max(l.told, zk.MakeZxid(p.lead.epoch, 0)) + 1; z <= p.lead.committed; z++ {
		kind, last := KindCommit, z == p.lead.committed || int64(z+1) == p.config.Version
		if int64(z) == p.config.Version {
			kind = KindCommitAndActivate
		}
		if untold++; kind != KindCommit || last || !l.cumulative || untold == CumulativeMax {
			p.send(l.id, commitOf(kind, Record{Zxid: z}, p.opts.ID))
			untold = 0
		}
	}
}
