package fle

import (
	"slices"

	"github.com/conclave-project/conclave/internal/invariant"
	"github.com/conclave-project/conclave/internal/quorum"
)

// AskersMax is how many servers without a vote are remembered as having asked for the outcome.
const AskersMax = 64

// asker is a server that was looking when this server told it something.
type asker struct {
	id    quorum.ID
	round int64        // the round of its last question
	last  Notification // the last answer it got
	atMs  int64
}

// decide ends the election by votes.
func (m *Machine) decide(nowMs int64, agreed quorum.IDs) {
	invariant.Check(agreed.Has(m.cfg.ID), "fle-F3: the own vote is not among the equal ones")
	invariant.Check(m.set.Enough(agreed) || m.ensemble.Alone && m.proposal.Leader == m.cfg.ID, "fle-F3: decided without a quorum")
	m.takeRole(nowMs, Elected{Vote: m.proposal, Round: m.round}, agreed)
	m.tellOthers(agreed)
}

// tellOthers tells the participants that have not said that they agree whom this server
// follows. They may have missed a message, and would ask only when their resend pause is over.
// Or they may have elected this very server and wait for it.
func (m *Machine) tellOthers(agreed quorum.IDs) {
	if m.state == Leading {
		return // tellParticipants has told them
	}
	n := m.notification()
	for _, id := range m.set.Participants() {
		if id != m.cfg.ID && !agreed.Has(id) {
			m.out = append(m.out, Send{id, n})
		}
	}
}

// takeRole begins the role that follows from a vote; e lacks only the state.
func (m *Machine) takeRole(nowMs int64, e Elected, supporters quorum.IDs) {
	switch {
	case e.Leader == m.cfg.ID:
		invariant.Check(m.set.Weight(m.cfg.ID) > 0, "fle-F5: a server without weight leads")
		m.state = Leading
	case m.cfg.Observer:
		m.state = Observing
	default:
		m.state = Following
	}
	m.current, m.currentRound, m.supporters = e.Vote, e.Round, supporters
	m.synced, m.left, m.doubted = false, false, false
	m.finalizeMs = 0
	m.votes, m.established = nil, nil
	e.State = m.state
	m.out = append(m.out, e)
	if m.state == Leading {
		m.tellParticipants(nowMs)
	}
	m.tellAsked(nowMs)
}

// tellParticipants tells all participants that this server leads. They need a notification from
// the leader itself (fle-F4), however it has come to lead.
func (m *Machine) tellParticipants(nowMs int64) {
	n := m.notification()
	for _, id := range m.set.Participants() {
		if id == m.cfg.ID {
			continue
		}
		m.out = append(m.out, Send{id, n})
		if at := slices.IndexFunc(m.asked, func(a asker) bool { return a.id == id }); at >= 0 {
			m.asked[at].last, m.asked[at].atMs = n, nowMs
		}
	}
}

// followingReceivesLooking answers a server that looks with the leader that this server
// follows. If the sender is that leader, and it votes for another server or has gone on to a
// later round, there is nobody to follow. The answer of an observer counts for no leader, but
// it carries the configuration to a server that was away while all the servers it knows were
// replaced.
func (m *Machine) followingReceivesLooking(nowMs int64, from quorum.ID, n *Notification) {
	if from == m.current.Leader && (n.Round > m.currentRound || n.Round == m.currentRound && n.Leader != from) {
		m.doubt()
		return
	}
	m.answer(nowMs, from, n.Round)
}

// followingReceivesFollowing notices when this server's leader follows another server, and
// tells a server that follows this one that it does not lead.
func (m *Machine) followingReceivesFollowing(nowMs int64, from quorum.ID, n *Notification) {
	switch {
	case from == m.current.Leader && n.Round >= m.currentRound && n.Leader != from:
		m.doubt()
	case n.Leader == m.cfg.ID:
		m.answer(nowMs, from, n.Round)
	}
}

// doubt emits, once, that the leader will not lead. After Synced the connection to the leader
// is the better evidence.
func (m *Machine) doubt() {
	if !m.synced && !m.doubted {
		m.doubted = true
		m.doubts++
		m.out = append(m.out, Doubt{m.current.Leader})
	}
}

// leadingReceivesLooking answers, and records whether the sender has left. A late copy of the
// very vote that elected this server is support, not a sign that the sender has left.
func (m *Machine) leadingReceivesLooking(nowMs int64, from quorum.ID, n *Notification) {
	if n.Round == m.currentRound && n.Leader == m.cfg.ID {
		m.supporters.Add(from)
	} else {
		m.leaves(from)
	}
	m.answer(nowMs, from, n.Round)
}

// leadingReceivesDecided records which servers have come or left. A server that follows another
// leader, or leads itself, in this round or a later one has left: its vote for this server was
// cast before.
func (m *Machine) leadingReceivesDecided(_ int64, from quorum.ID, n *Notification) {
	if n.Leader == m.cfg.ID {
		m.supporters.Add(from)
	} else if n.Round >= m.currentRound {
		m.leaves(from)
	}
}

// leaves records that a participant no longer supports this leader. If the remaining supporters
// are no quorum, nobody else can join either (fle-F4), and all of them would wait until the
// leader times out on its followers (ZOOKEEPER-3109).
func (m *Machine) leaves(id quorum.ID) {
	if !m.supporters.Remove(id) {
		return
	}
	m.out = append(m.out, Disloyal{id})
	if !m.set.Enough(m.supporters) && !m.ensemble.Alone {
		m.doubt()
	}
}

// answer sends this server's notification to a server that asked, and remembers it. A peer that
// asks again in the same round gets the same answer at most once in half a resend pause. Such a
// peer may send many messages in one round, and two servers that each consider the other a
// stranger would answer each other's answers for ever.
func (m *Machine) answer(nowMs int64, id quorum.ID, round int64) {
	n := m.notification()
	at := slices.IndexFunc(m.asked, func(a asker) bool { return a.id == id })
	if at < 0 {
		if len(m.asked) >= AskersMax+len(m.set.Participants()) {
			m.asked = slices.Delete(m.asked, 0, 1)
		}
		m.asked = append(m.asked, asker{})
		at = len(m.asked) - 1
	} else if a := m.asked[at]; a.last == n && a.round == round && nowMs-a.atMs < m.cfg.ResendMinMs/2 {
		return
	}
	if m.left {
		m.asked[at] = asker{id: id, round: round} // told with the next outcome (fle-F10)
		return
	}
	m.asked[at] = asker{id, round, n, nowMs}
	m.out = append(m.out, Send{id, n})
}

// tellAsked tells every server that asked, during this election or after it, what has changed
// since it was told.
func (m *Machine) tellAsked(nowMs int64) {
	n := m.notification()
	for i := range m.asked {
		if a := &m.asked[i]; a.last != n {
			a.last, a.atMs = n, nowMs
			m.out = append(m.out, Send{a.id, n})
		}
	}
}
