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
