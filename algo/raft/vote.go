package raft

import (
	"slices"

	"github.com/conclave-project/conclave/algo"
)

// preVote begins a campaign: it asks whether a quorum would vote for this member.
// A partitioned member learns that it cannot win without raising the others' term.
func (m *Machine) preVote(nowMs int64) {
	if len(m.state.Config.Members) == 0 {
		return
	}
	if m.promised(nowMs, m.cfg.ID, 0) {
		m.campaignAtMs = m.afterPromise()
		return
	}
	m.begin(nowMs, preCandidate, 0)
	m.sendAll(algo.Message{Type: algo.PreVote, Term: m.nextTerm(), Round: m.round, Config: m.configName()})
	m.count(nowMs)
}

// requestVotes asks for votes in a new term. The transferTerm is the term of a
// leader that stepped down in favour of this member, 0 for none.
func (m *Machine) requestVotes(nowMs int64, transferTerm uint64) {
	if m.nextTerm() > algo.TermMax {
		m.fail(nowMs) // for ever: there is no higher term to lead in
		return
	}
	m.adopt(m.nextTerm())
	m.begin(nowMs, candidate, transferTerm)
	m.state.Vote = m.cfg.ID
	// The request may leave before the vote is on disk: the member's own vote is counted
	// only together with answers, which come later. A member that crashes in between has
	// asked for votes in a term in which it did not vote, and it never won.
	m.sendAll(algo.Message{Type: algo.RequestVote, Term: m.state.Term, Round: m.round, TransferTerm: transferTerm,
		Config: m.configName()})
	m.persist()
	m.count(nowMs)
}

func (m *Machine) begin(nowMs int64, r role, transferTerm uint64) {
	m.become(r)
	m.round++
	m.transferTerm = transferTerm
	m.giveUpMs = nowMs + max(1, m.cfg.SpreadMs)
	if m.member(m.cfg.ID) {
		m.granted = append(m.granted, m.cfg.ID)
	}
}

// count continues when enough members have granted, or too many have refused.
func (m *Machine) count(nowMs int64) {
	switch {
	case len(m.granted) >= m.quorum() && m.role == preCandidate:
		m.requestVotes(nowMs, 0)
	case len(m.granted) >= m.quorum() && m.role == candidate:
		m.becomeLeader(nowMs)
	case len(m.refused) > len(m.state.Config.Members)-m.quorum():
		m.fail(nowMs)
	}
}

// fail retries after a backoff that grows at first.
func (m *Machine) fail(nowMs int64) {
	m.become(follower)
	m.failures = min(m.failures+1, 4)
	span := m.cfg.SpreadMs * int64(m.failures) / 2
	m.campaignAtMs = nowMs + m.cfg.SpreadMs/8 + 1 + m.chance(span)
}

// onPreVote answers as onRequestVote would, and changes nothing.
func (m *Machine) onPreVote(nowMs int64, from algo.ID, e *algo.Message) {
	promised := m.promised(nowMs, from, e.TransferTerm)
	granted := e.Term >= m.nextTerm() && !promised && !m.supports(nowMs, from) && !e.Config.Less(m.configName())
	reply := algo.Message{Type: algo.PreVoteReply, Term: m.state.Term, Round: e.Round, Granted: granted}
	switch {
	case granted:
		reply.Term = e.Term
	case !promised: // a leader must not be displaced by a higher term
		reply.Term = max(m.state.Term, m.state.Floor)
	}
	m.sendWithConfig(from, reply, e)
}

// supports reports whether this member has voted for another candidate, possibly itself,
// that may be about to lead. A term above that candidate's would end its leadership as soon
// as it has begun.
func (m *Machine) supports(nowMs int64, rival algo.ID) bool {
	return m.role != preCandidate && m.state.Vote != "" && m.state.Vote != rival && nowMs < m.giveUpMs
}

// sendWithConfig answers a request for a vote. A candidate with an older configuration gets
// this member's: there may be no leader that would spread it.
func (m *Machine) sendWithConfig(to algo.ID, reply algo.Message, asked *algo.Message) {
	if asked.Config.Less(m.configName()) {
		reply.Config = m.state.Config
		reply.Config.Members = slices.Clone(m.state.Config.Members)
	}
	m.send(to, reply)
}

// onRequestVote grants a vote, at most one in a term, or refuses it. While a promise holds,
// the member ignores the request, including its higher term (4.2.3).
func (m *Machine) onRequestVote(nowMs int64, from algo.ID, e *algo.Message) {
	reply := algo.Message{Type: algo.RequestVoteReply, Round: e.Round}
	promised := m.promised(nowMs, from, e.TransferTerm)
	if e.Term >= m.state.Term && e.Term > m.state.Floor && !promised {
		before := m.state
		if e.Term > m.state.Term {
			m.adopt(e.Term)
		}
		if m.role <= preCandidate && !e.Config.Less(m.configName()) && (m.state.Vote == "" || m.state.Vote == from) {
			m.become(follower)
			m.state.Vote, reply.Granted = from, true
			m.giveUpMs = nowMs + m.cfg.SpreadMs
			m.campaignAtMs = max(m.campaignAtMs, nowMs+m.cfg.SpreadMs+m.chance(m.cfg.SpreadMs))
		}
		if m.state.Term != before.Term || m.state.Vote != before.Vote {
			m.persist()
		}
	}
	reply.Term = m.state.Term
	if !promised && !reply.Granted {
		reply.Term = max(reply.Term, m.state.Floor)
	}
	m.sendWithConfig(from, reply, e)
}

func (m *Machine) onPreVoteReply(nowMs int64, from algo.ID, e *algo.Message) {
	if m.role == preCandidate && e.Round == m.round {
		m.reply(nowMs, from, e, m.nextTerm())
	}
}

func (m *Machine) onRequestVoteReply(nowMs int64, from algo.ID, e *algo.Message) {
	if m.role == candidate && e.Round == m.round {
		m.reply(nowMs, from, e, m.state.Term)
	}
}

// reply counts an answer about the given term. An answer with a higher term or a newer
// configuration shows that this member has missed something.
func (m *Machine) reply(nowMs int64, from algo.ID, e *algo.Message, term uint64) {
	switch {
	case !e.Granted && len(e.Config.Members) > 0 && m.state.Config.Less(e.Config):
		m.fail(nowMs)
		m.state.Config = e.Config
		m.state.Config.Members = slices.Clone(e.Config.Members)
		m.persist()
	case e.Granted && e.Term != term || !m.member(from):
	case e.Granted && !slices.Contains(m.granted, from):
		m.granted = append(m.granted, from)
		m.count(nowMs)
	case !e.Granted && e.Term > m.state.Term:
		m.fail(nowMs)
		m.adopt(e.Term)
		m.persist()
	case !e.Granted && !slices.Contains(m.refused, from):
		m.refused = append(m.refused, from)
		m.count(nowMs)
	}
}

// onTimeoutNow campaigns at once, with the term of the leader that stepped down. A member
// that no longer wants to lead passes the step-down on to all.
func (m *Machine) onTimeoutNow(nowMs int64, _ algo.ID, e *algo.Message) {
	if e.Term < m.state.Term || m.role == leader {
		return
	}
	if e.Term > m.state.Term {
		m.adopt(e.Term)
		m.persist()
	}
	m.release(e.Term)
	if m.wants && len(m.state.Config.Members) > 0 {
		m.requestVotes(nowMs, e.Term)
		return
	}
	m.sendAll(algo.Message{Type: algo.StepDown, Term: e.Term})
}

// onStepDown learns that the leader of a term, and thus of all earlier terms, has stepped
// down.
func (m *Machine) onStepDown(nowMs int64, _ algo.ID, e *algo.Message) {
	if m.role == leader || e.Term < m.promise.term || e.Term < m.state.Term {
		return
	}
	m.release(e.Term)
	m.restMs = 0
	if m.role == follower && m.wants {
		m.campaignAtMs = nowMs + m.laterMs + m.chance(m.cfg.SpreadMs/4)
	}
}

// release ends the promise to a leader of this term or an older one.
func (m *Machine) release(term uint64) {
	if m.promise.term <= term {
		m.promise = promise{}
	}
	if m.role == follower {
		m.giveUpMs = 0
		m.follow("")
	}
}
