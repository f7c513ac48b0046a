package raft

import (
	"slices"

	"github.com/conclave-project/conclave/algo"
)

// win makes this member the leader of its term. It leads when a quorum has
// answered the first beat: with a vote nobody promises anything yet.
func (m *Machine) win(nowMs int64) {
	m.become(leader)
	m.failures = 0
	m.promise = promise{}
	m.giveUpMs = nowMs + m.cfg.LeaseMs
	m.answered = make(map[algo.ID]int64)
	m.adopted = make(map[algo.ID]configName)
	m.provenMs, m.untilMs, m.settled = -1, 0, true
	m.beat(nowMs)
}

// beat sends a beat to all. The number of its round is when it was sent.
func (m *Machine) beat(nowMs int64) {
	m.beatMs = nowMs
	// All elections of a member beat at the same moments, so that one packet
	// carries them.
	m.beatAtMs = (nowMs/m.cfg.BeatMs + 1) * m.cfg.BeatMs
	for _, id := range m.state.Config.Members {
		if id != m.cfg.ID {
			m.beatTo(id)
		}
	}
	m.prove(nowMs)
}

// beatTo sends the members too where they are not known to be there already.
func (m *Machine) beatTo(id algo.ID) {
	e := algo.Message{Word: algo.Beat, Term: m.state.Term, Round: uint64(m.beatMs), Config: m.configName()}
	known, heard := m.adopted[id]
	if !m.settled && !heard || heard && known != nameOf(m.state.Config) {
		e.Config.Members = slices.Clone(m.state.Config.Members)
	}
	m.send(id, e)
}

// onBeat follows the leader of this term or a higher one, and promises it to
// keep others out (T2).
func (m *Machine) onBeat(nowMs int64, from algo.ID, e *algo.Message) {
	reply := algo.Message{Word: algo.BeatReply, Round: e.Round}
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
	m.askAtMs = m.afterPromise()
	m.follow(from)
	reply.Term, reply.Yes, reply.Config = m.state.Term, true, m.configName()
	m.send(from, reply)
}

func (m *Machine) onBeatReply(nowMs int64, from algo.ID, e *algo.Message) {
	switch {
	case m.role != leader:
	case !e.Yes && e.Term > m.state.Term:
		m.outrun(nowMs, e.Term)
	case e.Yes && e.Term == m.state.Term && e.Round <= uint64(m.beatMs):
		m.answered[from] = max(m.answered[from], int64(e.Round))
		known, heard := m.adopted[from]
		if name := nameOf(e.Config); !heard || !known.newer(name) {
			m.adopted[from] = name
			if name != nameOf(m.state.Config) && (!heard || known != name) {
				m.beatTo(from)
			}
		}
		m.prove(nowMs)
		m.settle(nowMs)
	}
}

// outrun ends a leadership because a member has come to a higher term, and cannot
// follow. The holder that was told Lead was told until when, and may need that time:
// nobody is let go, and this member votes for nobody, itself included, until then
// (T3).
func (m *Machine) outrun(nowMs int64, term uint64) {
	led, old, untilMs := m.leads, m.state.Term, m.untilMs
	m.adopt(term)
	m.persist()
	if !led {
		m.askAtMs = nowMs + m.chance(m.cfg.SpreadMs)
		m.tellAll(algo.Message{Word: algo.Free, Term: old})
		return
	}
	m.promise = promise{term: old, untilMs: untilMs}
	m.askAtMs = m.afterPromise()
}

func (n configName) newer(than configName) bool {
	return n.term > than.term || n.term == than.term && n.version > than.version
}

// prove moves the lease to the youngest beat that a quorum has answered (T3).
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
	provenMs := min(m.beatMs, answered[len(answered)-m.quorum()])
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
