package zab

// An observer is a learner that does not vote. It says so in its hello, logs what it receives,
// and acknowledges nothing but NEWLEADER and UPTODATE. During synchronization it receives
// proposals and commits like a follower, and also INFORMs for what is committed meanwhile. In
// broadcast it receives INFORMs alone.

// learnerInform keeps a committed transaction that arrives before UPTODATE.
func (p *Peer) learnerInform(m *Message) {
	if !p.opts.Observer {
		p.leave(ReasonIllegal)
		return
	}
	p.learnerProposal(m)
	if p.learn != nil {
		p.learnerCommit(m)
	}
}

// observeInform logs and delivers a committed transaction.
func (p *Peer) observeInform(m *Message) {
	if !p.opts.Observer {
		p.leave(ReasonIllegal)
		return
	}
	p.followProposal(m)
	if p.learn == nil {
		return
	}
	p.deliver(Record{m.Zxid, m.Payload})
	p.trimHistory()
}

// serveProposal and serveCommit are for followers; an observer ignores these messages, as
// ZooKeeper's does.
func (p *Peer) serveProposal(m *Message) {
	if !p.opts.Observer {
		p.followProposal(m)
	}
}

func (p *Peer) serveCommit(m *Message) {
	if !p.opts.Observer {
		p.followCommit(m)
	}
}
