package raft

import (
	"slices"

	"github.com/conclave-project/conclave/algo"
)

// becomeLeader makes this member the leader of its term. It leads when a quorum
// has answered the first heartbeat: a vote promises nothing yet.
func (m *Machine) becomeLeader(nowMs int64) {
	m.become(leader)
	m.failures = 0
	m.promise = promise{}
	m.giveUpMs = nowMs + m.cfg.LeaseMs
	m.answered = make(map[algo.ID]int64)
	m.adopted = make(map[algo.ID]configName)
	m.provenMs, m.untilMs, m.committed = -1, 0, true
	m.heartbeat(nowMs)
}

// heartbeat sends a heartbeat to all. Its round is the time at which it was sent.
func (m *Machine) heartbeat(nowMs int64) {
	m.heartbeatMs = nowMs
	// All elections of a member send heartbeats at the same times, so one packet carries
	// them.
	m.heartbeatAtMs = (nowMs/m.cfg.HeartbeatMs + 1) * m.cfg.HeartbeatMs
	for _, id := range m.state.Config.Members {
		if id != m.cfg.ID {
			m.heartbeatTo(id)
		}
	}
	m.prove(nowMs)
}

// heartbeatTo includes the members of the configuration unless the receiver is known to
// have them.
func (m *Machine) heartbeatTo(id algo.ID) {
	e := algo.Message{Type: algo.Heartbeat, Term: m.state.Term, Round: uint64(m.heartbeatMs), Config: m.configName()}
	known, reported := m.adopted[id]
	if !m.committed && !reported || reported && known != nameOf(m.state.Config) {
		e.Config.Members = slices.Clone(m.state.Config.Members)
	}
	m.send(id, e)
}

// onHeartbeat follows the leader of this term or a higher one, and promises to
// keep others out (raft-T2).
func (m *Machine) onHeartbeat(nowMs int64, from algo.ID, e *algo.Message) {
	reply := algo.Message{Type: algo.HeartbeatReply, Round: e.Round}
	if e.Term < m.state.Term || m.role == leader && e.Term == m.state.Term {
		reply.Term = m.state.Term
		m.send(from, reply)
		return
	}
	newer := len(e.Config.Members) > 0 && m.state.Config.Less(e.Config)
	if newer {
		m.state.Config = e.Config
		m.state.Config.Members = slices.Clone(e.Config.Members)
	}
	if e.Term > m.state.Term {
		m.adopt(e.Term)
		m.persist()
	} else if newer {
		m.persist()
	}
	if m.role != follower {
		m.become(follower)
	}
	m.failures = 0
	m.promise = promise{term: e.Term, to: from, untilMs: nowMs + m.cfg.LeaseMs}
	m.campaignAtMs = m.afterPromise()
	m.follow(from)
	reply.Term, reply.Granted, reply.Config = m.state.Term, true, m.configName()
	m.send(from, reply)
}

func (m *Machine) onHeartbeatReply(nowMs int64, from algo.ID, e *algo.Message) {
	switch {
	case m.role != leader:
	case !e.Granted && e.Term > m.state.Term:
		m.outrun(nowMs, e.Term)
	case e.Granted && e.Term == m.state.Term && e.Round <= uint64(m.heartbeatMs):
		m.answered[from] = max(m.answered[from], int64(e.Round))
		known, reported := m.adopted[from]
		if name := nameOf(e.Config); !reported || !known.newer(name) {
			m.adopted[from] = name
			if name != nameOf(m.state.Config) && (!reported || known != name) {
				m.heartbeatTo(from)
			}
		}
		m.prove(nowMs)
		m.commitConfig(nowMs)
	}
}

// outrun ends a leadership because another member has reached a higher term and cannot
// follow. With Lead, the holder was told until when it leads, and may use that time: until
// then this member sends no StepDown and votes for nobody, not even itself (raft-T3).
func (m *Machine) outrun(nowMs int64, term uint64) {
	led, old, untilMs := m.leads, m.state.Term, m.untilMs
	m.adopt(term)
	m.persist()
	if !led {
		m.campaignAtMs = nowMs + m.chance(m.cfg.SpreadMs)
		m.sendAll(algo.Message{Type: algo.StepDown, Term: old})
		return
	}
	m.promise = promise{term: old, untilMs: untilMs}
	m.campaignAtMs = m.afterPromise()
}

func (n configName) newer(than configName) bool {
	return n.term > than.term || n.term == than.term && n.version > than.version
}

// prove moves the lease to the newest heartbeat that a quorum has answered (raft-T3).
func (m *Machine) prove(nowMs int64) {
	var answered []int64
	for _, id := range m.state.Config.Members {
		if id == m.cfg.ID {
			answered = append(answered, nowMs)
		} else if sentMs, ok := m.answered[id]; ok {
			answered = append(answered, sentMs)
		}
	}
	if len(answered) < m.quorum() {
		return
	}
	slices.Sort(answered)
	provenMs := min(m.heartbeatMs, answered[len(answered)-m.quorum()])
	untilMs := provenMs + m.cfg.LeaseMs - (m.cfg.LeaseMs*m.cfg.DriftPercent+99)/100 - 2
	if provenMs <= m.provenMs || nowMs >= untilMs {
		return
	}
	m.provenMs, m.untilMs = provenMs, untilMs
	if m.leads {
		m.emit(algo.Extend{SentMs: provenMs, UntilMs: untilMs})
		return
	}
	m.leads = true
	m.follow(m.cfg.ID)
	m.emit(algo.Lead{Term: m.state.Term, SentMs: provenMs, UntilMs: untilMs})
}
