package zab

import "github.com/conclave-project/conclave/zk"

// A server whose disk is full takes no part in deciding (zab-Z10): its log will not
// have what is proposed until somebody makes space.
//
// A leader gives up its role as soon as others can do without it, so that one
// of them leads and sessions end in time. While they cannot, because too few
// are there or their disks are full as well, another election would end as this
// one did: it stays, and reads go on. A follower says that it is full with a
// ping that answers none, of the zxid pingFull; a leader of this kind then waits
// for its acks without a limit, one of Apache's takes no notice, and ends its
// link after syncLimit.

// The zxids of pings that answer none. Apache's leader does not look at them.
const (
	pingTouched  = zk.NoZxid     // heartbeats that should not wait
	pingFull     = zk.NoZxid - 1 // the same, and the disk has no space
	pingDiverged = zk.NoZxid - 2 // the tree is not the one that the transactions make
	pingBusy     = zk.NoZxid - 3 // sent in the place of a server that is at a long step, by the leader as well
)

// onSpace notes whether the disk has space for records.
func (p *Peer) onSpace(e *Event) {
	if p.full == !e.OK {
		return
	}
	p.full = !e.OK
	p.tellFull()
}

// tellFull has the leader know of the disk.
func (p *Peer) tellFull() {
	if p.learn != nil && p.learn.stage == learnerServing {
		p.pingUnasked()
	}
}

// pingUnasked sends a ping that answers none.
func (p *Peer) pingUnasked() {
	p.send(p.learn.link, Message{Kind: KindPing, Zxid: PingUnasked(p.full)})
}

// PingUnasked is the zxid of a ping that answers none, of a learner whose disk has
// space or not.
func PingUnasked(full bool) zk.Zxid {
	if full {
		return pingFull
	}
	return pingTouched
}

// Busy is a heartbeat that may be sent for a server that is at a long step: on the links
// that Heartbeats names, by somebody else, at any time. It answers no ping, asks for none,
// and says nothing but that the server works.
func Busy() Message { return Message{Kind: KindPing, Zxid: pingBusy} }

// Heartbeats appends the links that take the message of Busy.
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

// serving appends the links of those who serve their clients.
func (ls *learners) serving(links []LinkID) []LinkID {
	for _, l := range ls.links {
		if l.stage == linkServing {
			links = append(links, l.id)
		}
	}
	return links
}

// noteFull notes, from an unasked ping, whether a learner's disk is full. The acks
// it owes are timed from when it has space.
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

// indispensable reports whether a leader serves, and too few others could write
// without it.
func (p *Peer) indispensable() bool {
	able := p.participants(false, func(l *link) bool { return l.stage == linkServing && !l.full })
	return p.lead.stage == leaderServing && !p.verifier(p.history.last).Enough(able)
}
