package zab

import "github.com/conclave-project/conclave/zk"

// A server whose disk is full takes no part in deciding (zab-Z10): its log cannot store what is
// proposed until an operator frees space.
//
// A leader gives up its role as soon as the others can go on without it, so that one of them
// leads and sessions still expire on time. While they cannot, because too few are connected or
// their disks are full as well, another election would have the same result: the leader stays,
// and reads go on. A follower reports that its disk is full with an unasked ping, whose zxid is
// pingFull. A leader of this implementation then waits for the follower's acks without a limit.
// An Apache leader ignores the report and ends the link after syncLimit.

// The zxids of unasked pings, which answer no ping of the leader's. An Apache leader ignores
// them.
const (
	pingTouched  = zk.NoZxid     // heartbeats that should not wait for the next ping
	pingFull     = zk.NoZxid - 1 // the same, and the disk has no space
	pingDiverged = zk.NoZxid - 2 // the tree is not the one that the transactions make
	pingBusy     = zk.NoZxid - 3 // sent on behalf of a server, or a leader, that is busy with a long step
)

// onSpace notes whether the disk has space for records.
func (p *Peer) onSpace(e *Event) {
	if p.full == !e.OK {
		return
	}
	p.full = !e.OK
	p.tellFull()
}

// tellFull tells the leader whether this server's disk is full.
func (p *Peer) tellFull() {
	if p.learn != nil && p.learn.stage == learnerServing {
		p.pingUnasked()
	}
}

// pingUnasked sends a ping that answers no ping of the leader's.
func (p *Peer) pingUnasked() {
	p.send(p.learn.link, Message{Kind: KindPing, Zxid: PingUnasked(p.full)})
}

// PingUnasked returns the zxid of an unasked ping from a learner whose disk is full or not.
func PingUnasked(full bool) zk.Zxid {
	if full {
		return pingFull
	}
	return pingTouched
}

// Busy returns a heartbeat that may be sent on behalf of a server that is busy with a long
// step. Another goroutine may send it at any time on the links that Heartbeats returns. It
// answers no ping, asks for no answer, and says only that the server works.
func Busy() Message { return Message{Kind: KindPing, Zxid: pingBusy} }

// Heartbeats appends the links on which the message of Busy may be sent.
func (p *Peer) Heartbeats(links []LinkID) []LinkID {
	switch {
	case p.lead != nil:
		links = p.lead.serving(links)
	case p.learn != nil && p.learn.stage == learnerServing:
		links = append(links, p.learn.link)
		if p.master != nil {
			links = p.master.serving(links)
		}
	}
	return links
}

// serving appends the links of learners that serve their clients.
func (ls *learners) serving(links []LinkID) []LinkID {
	for _, l := range ls.links {
		if l.stage == linkServing {
			links = append(links, l.id)
		}
	}
	return links
}

// noteFull records, from an unasked ping, whether a learner's disk is full. When the disk has
// space again, the time limit for the acks that the learner owes starts again.
func (p *Peer) noteFull(l *link, m *Message) {
	full := m.Zxid == pingFull
	if l.full && !full {
		l.waitsMs = p.nowMs
	}
	l.full = full
}

// yield ends the role of a leader that cannot write (zab-Z10).
func (p *Peer) yield() {
	if p.full && p.lead != nil && !p.opts.Solo && !p.indispensable() {
		p.leave(ReasonFull)
	}
}

// indispensable reports whether the leader serves and the servers that could write without it
// are too few.
func (p *Peer) indispensable() bool {
	able := p.participants(false, func(l *link) bool { return l.stage == linkServing && !l.full })
	return p.lead.stage == leaderServing && !p.verifier(p.history.last).Enough(able)
}
