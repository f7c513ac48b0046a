package raft

import (
	"slices"

	"github.com/conclave-project/conclave/algo"
)

// ask begins a campaign: would a quorum vote for this member? A member that was
// cut off finds out so that it cannot win, without raising the term of others.
func (m *Machine) ask(nowMs int64) {
	if len(m.state.Config.Members) == 0 {
		return
	}
	if m.promised(nowMs, m.cfg.ID, 0) {
		m.askAtMs = m.afterPromise()
		return
	}
	m.begin(nowMs, asking, 0)
	m.tellAll(algo.Message{Word: algo.AskFirst, Term: m.nextTerm(), Round: m.round, Config: m.configName()})
	m.count(nowMs)
}

// vote asks for votes in a new term. The permit is the term of a leader that has
// let go in favour of this member, 0 for none.
func (m *Machine) vote(nowMs int64, permit uint64) {
	if m.state.Term == algo.TermMax {
		m.fail(nowMs) // for ever: there is no term left to lead in
		return
	}
	m.adopt(m.nextTerm())
	m.begin(nowMs, candidate, permit)
	m.state.Vote = m.cfg.ID
	// The question may overtake the disk: the own vote is counted with answers,
	// which come later. Who crashes between the two has asked in a term in which
	// it did not vote, and never won.
	m.tellAll(algo.Message{Word: algo.Ask, Term: m.state.Term, Round: m.round, Permit: permit,
		Config: m.configName()})
	m.persist()
	m.count(nowMs)
}

func (m *Machine) begin(nowMs int64, r role, permit uint64) {
	m.become(r)
	m.round++
	m.permit = permit
	m.giveUpMs = nowMs + max(1, m.cfg.SpreadMs)
	if m.member(m.cfg.ID) {
		m.yes = append(m.yes, m.cfg.ID)
	}
}

// count goes on when there are votes enough, or will not be.
func (m *Machine) count(nowMs int64) {
	switch {
	case len(m.yes) >= m.quorum() && m.role == asking:
		m.vote(nowMs, 0)
	case len(m.yes) >= m.quorum() && m.role == candidate:
		m.win(nowMs)
	case len(m.no) > len(m.state.Config.Members)-m.quorum():
		m.fail(nowMs)
	}
}

// fail goes back and tries again after a while, which grows at first.
func (m *Machine) fail(nowMs int64) {
	m.become(follower)
	m.failures = min(m.failures+1, 4)
	span := m.cfg.SpreadMs * int64(m.failures) / 2
	m.askAtMs = nowMs + m.cfg.SpreadMs/8 + 1 + m.chance(span)
}

// onAskFirst answers as onAsk would, and changes nothing.
func (m *Machine) onAskFirst(nowMs int64, from algo.ID, e *algo.Message) {
	promised := m.promised(nowMs, from, e.Permit)
	yes := e.Term >= m.nextTerm() && !promised && !e.Config.Less(m.configName())
	reply := algo.Message{Word: algo.AskFirstReply, Term: m.state.Term, Round: e.Round, Yes: yes}
	switch {
	case yes:
		reply.Term = e.Term
	case !promised: // while somebody leads, its term is not to be outrun
		reply.Term = max(m.state.Term, m.cfg.Floor)
	}
	m.sendWithConfig(from, reply, e)
}

// sendWithConfig answers a question. Who asks with an older configuration gets
// this one: there may be nobody to lead who would spread it.
func (m *Machine) sendWithConfig(to algo.ID, reply algo.Message, asked *algo.Message) {
	if asked.Config.Less(m.configName()) {
		reply.Config = m.state.Config
		reply.Config.Members = slices.Clone(m.state.Config.Members)
	}
	m.send(to, reply)
}

// onAsk grants a vote, at most one in a term, or says no. A promise makes this
// member deaf, also for the higher term (4.2.3).
func (m *Machine) onAsk(nowMs int64, from algo.ID, e *algo.Message) {
	reply := algo.Message{Word: algo.AskReply, Round: e.Round}
	promised := m.promised(nowMs, from, e.Permit)
	if e.Term >= m.state.Term && e.Term > m.cfg.Floor && !promised {
		before := m.state
		if e.Term > m.state.Term {
			m.adopt(e.Term)
		}
		if m.role <= asking && !e.Config.Less(m.configName()) && (m.state.Vote == "" || m.state.Vote == from) {
			m.become(follower)
			m.state.Vote, reply.Yes = from, true
			m.askAtMs = max(m.askAtMs, nowMs+m.cfg.SpreadMs+m.chance(m.cfg.SpreadMs))
		}
		if m.state.Term != before.Term || m.state.Vote != before.Vote {
			m.persist()
		}
	}
	reply.Term = m.state.Term
	if !promised && !reply.Yes {
		reply.Term = max(reply.Term, m.cfg.Floor)
	}
	m.sendWithConfig(from, reply, e)
}

func (m *Machine) onAskFirstReply(nowMs int64, from algo.ID, e *algo.Message) {
	if m.role == asking && e.Round == m.round {
		m.reply(nowMs, from, e, m.nextTerm())
	}
}

func (m *Machine) onAskReply(nowMs int64, from algo.ID, e *algo.Message) {
	if m.role == candidate && e.Round == m.round {
		m.reply(nowMs, from, e, m.state.Term)
	}
}

// reply counts an answer about the given term. One of a higher term, or with a
// newer configuration, shows that this member is behind.
func (m *Machine) reply(nowMs int64, from algo.ID, e *algo.Message, term uint64) {
	switch {
	case !e.Yes && len(e.Config.Members) > 0 && m.state.Config.Less(e.Config):
		m.fail(nowMs)
		m.state.Config = e.Config
		m.state.Config.Members = slices.Clone(e.Config.Members)
		m.persist()
	case e.Yes && e.Term != term || !m.member(from):
	case e.Yes && !slices.Contains(m.yes, from):
		m.yes = append(m.yes, from)
		m.count(nowMs)
	case !e.Yes && e.Term > m.state.Term:
		m.fail(nowMs)
		m.adopt(e.Term)
		m.persist()
	case !e.Yes && !slices.Contains(m.no, from):
		m.no = append(m.no, from)
		m.count(nowMs)
	}
}

// onNow campaigns at once, with the permit of the leader that let go. Who does
// not want to lead any more tells all that nobody does.
func (m *Machine) onNow(nowMs int64, _ algo.ID, e *algo.Message) {
	if e.Term < m.state.Term || m.role == leader {
		return
	}
	if e.Term > m.state.Term {
		m.adopt(e.Term)
		m.persist()
	}
	m.release(e.Term)
	if m.wants && len(m.state.Config.Members) > 0 {
		m.vote(nowMs, e.Term)
		return
	}
	m.tellAll(algo.Message{Word: algo.Free, Term: e.Term})
}

// onFree hears that the leader of a term, and so of all before it, has let go.
func (m *Machine) onFree(nowMs int64, _ algo.ID, e *algo.Message) {
	if m.role == leader || e.Term < m.promise.term || e.Term < m.state.Term {
		return
	}
	m.release(e.Term)
	m.restMs = 0
	if m.role == follower && m.wants {
		m.askAtMs = nowMs + m.laterMs + m.chance(m.cfg.SpreadMs/4)
	}
}

// release forgets the promise to a leader of this term or an older one.
func (m *Machine) release(term uint64) {
	if m.promise.term <= term {
		m.promise = promise{}
	}
	if m.role == follower {
		m.follow("")
	}
}
