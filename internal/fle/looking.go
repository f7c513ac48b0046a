package fle

import (
	"math/bits"
	"slices"

	"github.com/conclave-project/conclave/internal/invariant"
	"github.com/conclave-project/conclave/internal/quorum"
)

// onLook begins an election in a new round.
func (m *Machine) onLook(nowMs int64, e Look) {
	m.look = &e
	m.state = Looking
	m.established = make(tally)
	m.asked = slices.DeleteFunc(m.asked, func(a asker) bool { return m.set.Participants().Has(a.id) })
	m.synced, m.left = false, false
	m.initial = noVote
	if m.participant() {
		m.initial = Vote{m.cfg.ID, e.Zxid, e.Epoch}
	}
	m.startRound(nowMs, m.round+1, m.initial)
	m.takeEarly(nowMs)
}

// early is a vote that arrived before this server was looking.
type early struct {
	n    Notification
	atMs int64
}

// keepEarly remembers the last vote of a looking participant while this server does not look.
// Servers notice the loss of a leader one after another, and the vote of the first one would
// otherwise be lost until its resend pause ends. It also remembers a notification that its
// sender has decided in a later round than this server's, because that is sent only once.
func (m *Machine) keepEarly(nowMs int64, from quorum.ID, n *Notification) {
	if n.State == Looking || m.look != nil && n.Round > m.currentRound {
		m.early[from] = early{*n, nowMs}
	} else {
		delete(m.early, from)
	}
}

// takeEarly handles the remembered notifications, those of servers that follow already first:
// votes for a server that follows another one must not decide the election. A vote older than
// the longest pause is dropped, because its sender would have repeated it if it still held.
func (m *Machine) takeEarly(nowMs int64) {
	received := m.early
	m.early = make(map[quorum.ID]early)
	for _, looking := range []bool{false, true} {
		for _, id := range m.set.Participants() {
			e, ok := received[id]
			if ok && (e.n.State == Looking) == looking && nowMs-e.atMs <= m.cfg.ResendMaxMs && m.state == Looking {
				m.onReceived(nowMs, id, &e.n)
			}
		}
	}
}

// preferred returns the configuration whose servers come first in a round. While a change is
// proposed, some servers may not have learned of it (Apache's servers do not), and they cannot
// vote for a leader that is only in the proposed configuration. So in some rounds the servers
// of the configuration in force come first: everybody can elect them. But their histories may
// all be too short for the quorum of the proposed configuration, which Zab needs as well. So in
// other rounds the history alone counts. A round without a decision is followed by the next one
// (see tick).
//
// The two kinds alternate by the Thue-Morse sequence: whatever number of rounds each failed
// leadership takes, both kinds occur.
func (m *Machine) preferred(round int64) quorum.Set {
	if bits.OnesCount64(uint64(round))%2 != 0 {
		return m.ensemble.Committed
	}
	return m.set
}

// roundResends is how long a round may last while a change of the ensemble is proposed, in
// shortest pauses.
const roundResends = 8

// startRound enters a round with a first proposal.
func (m *Machine) startRound(nowMs, round int64, first Vote) {
	invariant.Check(round > m.round, "fle-F1: the round does not grow")
	m.round = round
	m.roundEndMs = 0
	if (m.ensemble.Seen != nil || m.ensemble.Learned != nil || m.ensemble.Alone) && m.participant() {
		m.roundEndMs = nowMs + roundResends*m.cfg.ResendMinMs
	}
	m.votes = make(tally)
	m.propose(nowMs, first)
}

// propose makes a vote this server's own and sends it to all participants.
func (m *Machine) propose(nowMs int64, v Vote) {
	m.proposal = v
	m.finalizeMs = 0
	m.resendGapMs = m.cfg.ResendMinMs
	if m.participant() && trusted(v.Zxid) {
		m.votes[m.cfg.ID] = lastVote{v, m.round, Looking, versionSent}
	}
	m.broadcast(nowMs)
	m.count(nowMs)
}

// broadcast sends the present proposal to all participants. Other servers are not told without
// asking: observers that dial each other cause storms (ZOOKEEPER-1807).
func (m *Machine) broadcast(nowMs int64) {
	n := m.notification()
	for _, id := range m.set.Participants() {
		if id != m.cfg.ID {
			m.out = append(m.out, Send{id, n})
		}
	}
	m.resendMs = nowMs + m.resendGapMs
}

// onReceived filters notifications before the table of handlers: a server without a vote gets
// an answer and is not counted (fle-F8).
func (m *Machine) onReceived(nowMs int64, from quorum.ID, n *Notification) {
	if from == m.cfg.ID || n.State < 0 || n.State >= states || n.Round < roundMin(n.State) || n.Round > roundMax {
		return
	}
	m.learnConfig(from, n)
	participant := m.set.Participants().Has(from)
	if participant && (m.look == nil || m.state != Looking) {
		m.keepEarly(nowMs, from, n)
	}
	if m.look == nil || m.adopt(from, n) {
		return
	}
	if m.left {
		if !participant && n.State == Looking {
			m.answer(nowMs, from, n.Round)
		}
		return
	}
	if !participant {
		if n.State == Looking {
			m.answer(nowMs, from, n.Round)
		}
		return
	}
	if m.cfg.Met != nil {
		m.cfg.Met(Row{m.state, n.State})
	}
	handlers[m.state][n.State](m, nowMs, from, n)
}

// roundMin is the lowest round that is accepted. Apache's servers whose leader was chosen by a
// reconfig send -1 until the next election: that leadership is in no round, and can be joined
// in any.
func roundMin(sender State) int64 {
	if sender == Looking {
		return 0
	}
	return -1
}

// adopt asks the caller to adopt a newer configuration, and reports whether that completes the
// handling of the message. It does so only while looking: otherwise the leader sends the
// configuration (ZOOKEEPER-2212). It does so once for each server and version. So a text that
// cannot be used does not block the election, and a high version, which any peer can claim,
// does not block the configurations of the other servers.
func (m *Machine) adopt(from quorum.ID, n *Notification) bool {
	if m.state != Looking || n.ConfigVersion <= m.ensemble.Version || m.adopted[from] == n.ConfigVersion ||
		m.ensemble.Fixed && !m.quorumHas(from, n.ConfigVersion) {
		return false
	}
	if len(m.adopted) >= AskersMax+len(m.set.Participants()) {
		clear(m.adopted) // strangers may claim any number of ids
	}
	m.adopted[from] = n.ConfigVersion
	m.out = append(m.out, Adopt{from, n.ConfigVersion, n.Config})
	return true
}

// quorumHas records that a server has a configuration of this version. It reports whether this
// server, together with the others that have a configuration at least as new, is a quorum of
// the configuration in force. A single server, perhaps of another ensemble, must not be able to
// change a fixed one.
func (m *Machine) quorumHas(from quorum.ID, version int64) bool {
	if m.reported == nil {
		m.reported = make(map[quorum.ID]int64)
	}
	participants := m.ensemble.Committed.Participants()
	if participants.Has(from) {
		m.reported[from] = version
	}
	have := quorum.MakeIDs()
	for _, id := range participants {
		if id == m.cfg.ID || m.reported[id] >= version {
			have.Add(id)
		}
	}
	return m.ensemble.Committed.Enough(have)
}

// learnConfig reports a configuration that is proposed in the log of a participant. The message
// is handled further afterwards. It does so once for each version, because the configuration
// may be unusable.
func (m *Machine) learnConfig(from quorum.ID, n *Notification) {
	known := max(m.ensemble.Version, m.ensemble.SeenVersion, m.learnedVersion)
	if m.state != Looking || m.look == nil || n.ProposedVersion <= known || !m.ensemble.Committed.Participants().Has(from) {
		return
	}
	m.learnedVersion = n.ProposedVersion
	m.out = append(m.out, Learned{from, n.ProposedVersion, n.Proposed})
}

// lookingReceivesLooking counts the vote of a peer in this round, and adopts the vote if it is
// better.
func (m *Machine) lookingReceivesLooking(nowMs int64, from quorum.ID, n *Notification) {
	delete(m.established, from) // it no longer follows anybody
	if !m.participant() {
		return // a server without a vote waits for an outcome (fle-F8)
	}
	if n.Round < m.round {
		delete(m.votes, from)
		m.out = append(m.out, Send{from, m.notification()})
		m.count(nowMs)
		return
	}
	if !m.set.Participants().Has(n.Leader) || !trusted(n.Zxid) || !trusted(m.initial.Zxid) {
		return
	}
	if n.Round-m.round > roundJumpMax {
		m.startRound(nowMs, m.round+roundJumpMax, m.initial) // the peer will send its round again
		return
	}
	b := lastVoteOf(n)
	switch {
	case n.Round > m.round:
		// Compared with the first vote, not with the proposal, which was adopted in a round
		// that is over.
		first := m.initial
		if n.outranks(first, m.preferred(n.Round), m.set) {
			first = n.Vote
		}
		m.startRound(nowMs, n.Round, first)
	case n.outranks(m.proposal, m.preferred(m.round), m.set):
		m.propose(nowMs, n.Vote)
	case n.Vote != m.proposal && m.votes[from] == b:
		// The peer repeats a vote that is not the best: what was sent did not reach it, and
		// this server's own pause may be long by now.
		m.answer(nowMs, from, n.Round)
	}
	if m.state != Looking {
		return
	}
	m.votes[from] = b
	m.count(nowMs)
	if leader := m.votes[m.proposal.Leader]; m.state == Looking && leader.state == Leading {
		m.joins(nowMs, m.votes, leader, sameInRound) // the last vote that was missing
	}
}

// count looks for a quorum of votes equal to the proposal.
func (m *Machine) count(nowMs int64) {
	agreed := m.agreed()
	if agreed == nil {
		m.finalizeMs = 0
		return
	}
	if m.waitMs() == 0 || len(agreed) == len(m.set.Participants()) {
		m.decide(nowMs, agreed)
		return
	}
	if m.finalizeMs == 0 {
		m.finalizeMs = nowMs + m.waitMs()
	}
}

// waitMs returns how long to wait for a better vote. A server that has doubted its leader twice
// decides too early: perhaps others need a quorum of another ensemble, too.
func (m *Machine) waitMs() int64 {
	if m.doubts < 2 {
		return m.cfg.FinalizeMs
	}
	return max(m.cfg.FinalizeMs, m.cfg.ResendMinMs/4)
}

// agreed returns the servers that vote as this one does; nil if they are not enough.
func (m *Machine) agreed() quorum.IDs {
	own := lastVote{m.proposal, m.round, Looking, versionSent}
	agreed := m.votes.agreeing(m.set.Participants(), own, sameVote)
	if m.set.Weight(m.proposal.Leader) == 0 || !m.set.Enough(agreed) || m.declined(m.proposal.Leader) {
		return nil
	}
	return agreed
}

// declined reports whether the proposed leader has said that it follows another server, in this
// round or a later one. It will not lead in this round any more (fle-F1). A server that elected
// it nevertheless would wait for a message that it has received already.
func (m *Machine) declined(leader quorum.ID) bool {
	b, ok := m.established[leader]
	return ok && b.round >= m.round && b.Leader != leader
}

// lookingReceivesDecided counts the notification of a server that follows or leads: in this
// round as a vote like any other, and in any round as a report of a leadership that can be
// joined.
func (m *Machine) lookingReceivesDecided(nowMs int64, from quorum.ID, n *Notification) {
	if !m.set.Participants().Has(n.Leader) {
		return
	}
	b := lastVoteOf(n)
	switch {
	case n.Round > m.round:
		delete(m.votes, from) // it has left this round, and its vote in it no longer counts
	case n.Round == m.round:
		// Judged by the votes of this round alone, not by those of any round (ZOOKEEPER-3537).
		m.votes[from] = b
		if m.joins(nowMs, m.votes, b, sameInRound) {
			return
		}
	}
	m.established[from] = b
	if m.joins(nowMs, m.established, b, sameLeadership) {
		return
	}
	m.count(nowMs)
}

// joins joins the leadership that b reports if a quorum reports it too and the leader confirms
// it (fle-F4). A quorum of the configuration in force is enough: a proposed configuration may
// be in this server's log alone, and never be committed.
func (m *Machine) joins(nowMs int64, t tally, b lastVote, same func(a, b lastVote) bool) bool {
	agreed := t.agreeing(m.set.Participants(), b, same)
	if m.set.Weight(b.Leader) == 0 || !m.ensemble.Committed.Enough(agreed) && !m.leadsAlone(b) {
		return false
	}
	switch {
	case b.Leader == m.cfg.ID && b.round != m.round:
		return false // this server led in a round that is over (fle-F5)
	case b.Leader == m.cfg.ID:
	case !agreed.Has(b.Leader) || t[b.Leader].state != Leading:
		return false
	}
	// A lower round is not adopted: this machine could have decided in it before (fle-F1).
	if b.round > m.round {
		m.round = min(b.round, m.round+roundJumpMax)
	}
	m.takeRole(nowMs, Elected{Vote: b.Vote, Round: b.round, Joined: true}, agreed)
	m.tellOthers(agreed)
	return true
}

// leadsAlone reports whether a vote comes from a leader that the oracle may permit to lead
// without the other participant. The oracle has not permitted this server, so it may join that
// leader. If that leader in fact leads nobody, the connection to it shows that.
func (m *Machine) leadsAlone(b lastVote) bool {
	return m.ensemble.Oracle && !m.ensemble.Alone && b.state == Leading && b.Leader != m.cfg.ID
}

// electsItself reports whether this server should lead without the other participant: the
// oracle permits it, and nobody else has voted in this round for a whole pause.
func (m *Machine) electsItself() bool {
	return m.ensemble.Alone && m.participant() && trusted(m.initial.Zxid) && m.proposal == m.initial &&
		m.set.Weight(m.cfg.ID) > 0 && len(m.votes) == 1
}

// tick does what is due while this server is looking.
func (m *Machine) tick(nowMs int64) {
	if m.state != Looking || m.look == nil {
		return
	}
	if m.finalizeMs != 0 && nowMs >= m.finalizeMs {
		agreed := m.agreed()
		invariant.Check(agreed != nil, "fle-F3: the quorum went while it was waited on")
		m.decide(nowMs, agreed)
		return
	}
	if m.roundEndMs != 0 && nowMs >= m.roundEndMs {
		m.startRound(nowMs, m.round+1, m.initial)
		return
	}
	if nowMs >= m.resendMs && m.electsItself() {
		m.decide(nowMs, quorum.MakeIDs(m.cfg.ID))
		return
	}
	if nowMs >= m.resendMs {
		m.resendGapMs = min(2*m.resendGapMs, m.cfg.ResendMaxMs)
		m.broadcast(nowMs)
	}
}
