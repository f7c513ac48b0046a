package raft

import (
	"cmp"
	"slices"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/internal/invariant"
)

// Config is fixed for the life of a machine. Times are in milliseconds.
type Config struct {
	ID algo.ID
	// State is what was on disk. At the very first start it contains only the founding
	// configuration with version 1, the same for all founders; a member that is added later
	// starts without a configuration.
	State algo.State
	// LeaseMs is how long an answered heartbeat keeps other candidates out. It is the same
	// for all members, or the leader's must be the shortest.
	LeaseMs int64
	// FormerLeaseMs is the longest lease of this member before it was started, 0 for the
	// same: it may have promised that much to a leader (raft-T2).
	FormerLeaseMs int64
	// DriftPercent is by how much the rates of two clocks may differ, 0 to 25.
	DriftPercent int64
	// HeartbeatMs is the pause between two heartbeats, by default a tenth of the lease.
	// This much of a lease may have passed when the next proof arrives, and a leader on a
	// busy machine may miss it.
	HeartbeatMs int64
	// SpreadMs is the time over which candidates spread when a leader is gone, by default a
	// quarter of the lease.
	SpreadMs int64
	// Seed differs among members.
	Seed uint64
}

type role uint8

const (
	follower     role = iota
	preCandidate      // asks whether others would vote for it (PreVote)
	candidate         // asks for votes (RequestVote)
	leader            // has the votes; leads when a quorum has answered a heartbeat
)

// promise keeps a leader's rivals out until its time has passed (raft-T2).
type promise struct {
	term    uint64
	to      algo.ID // empty after a restart: any leader up to this term
	untilMs int64
}

// Machine is one member. It is not safe for concurrent use.
type Machine struct {
	cfg   Config
	state algo.State // on disk, except for what a Persist of this step writes
	seed  uint64
	out   []algo.Effect

	role    role
	wants   bool
	laterMs int64
	leader  algo.ID // of this term
	promise promise

	// When to campaign, while this member wants to lead and no member does.
	campaignAtMs int64
	restMs       int64 // not before this time: it stepped down in favour of another
	failures     int

	// While preCandidate or candidate.
	round        uint64
	transferTerm uint64
	granted      []algo.ID
	refused      []algo.ID

	// When the present role ends without success; for a follower, until when the candidate
	// that it has voted for may be about to lead.
	giveUpMs int64

	// While leader.
	leads         bool
	heartbeatAtMs int64
	heartbeatMs   int64                  // when the last heartbeat was sent
	answered      map[algo.ID]int64      // the newest heartbeat that each member has answered, by its sending time
	adopted       map[algo.ID]configName // the configuration that each member has reported in this term
	provenMs      int64                  // the newest heartbeat that a quorum has answered
	untilMs       int64
	pending       []algo.ID // the members of the next configuration; nil for none
	committed     bool      // a quorum has the present configuration, and Reconfigured was reported
}

// configName is a configuration without its members.
type configName struct{ term, version uint64 }

func nameOf(c algo.Config) configName { return configName{c.Term, c.Version} }

// New returns a member that starts at the given time.
func New(nowMs int64, cfg Config) *Machine {
	cfg.HeartbeatMs = max(1, cmp.Or(cfg.HeartbeatMs, cfg.LeaseMs/10))
	cfg.SpreadMs = max(1, cmp.Or(cfg.SpreadMs, cfg.LeaseMs/4))
	invariant.Check(cfg.ID != "" && cfg.LeaseMs > 0, "raft: a member needs an id and a lease")
	invariant.Check(cfg.State.Term <= algo.TermMax && cfg.State.Floor <= algo.TermMax, "raft: a term beyond all")
	m := &Machine{cfg: cfg, state: cfg.State, seed: cfg.Seed*0x9e3779b97f4a7c15 | 1}
	m.state.Config.Members = slices.Clone(cfg.State.Config.Members)
	if m.state.Term > 0 {
		m.promise = promise{term: m.state.Term, untilMs: nowMs + max(cfg.LeaseMs, cfg.FormerLeaseMs)}
	}
	m.random()
	return m
}

// Step takes one event at the given time and returns what to do. The slice is
// valid until the next step.
func (m *Machine) Step(nowMs int64, event algo.Event) []algo.Effect {
	m.out = m.out[:0]
	m.tick(nowMs)
	switch e := event.(type) {
	case algo.Campaign:
		m.onCampaign(nowMs, e.LaterMs)
	case algo.Withdraw:
		m.onWithdraw(nowMs)
	case algo.Transfer:
		m.onTransfer(nowMs, e.To)
	case algo.Reconfigure:
		m.onReconfigure(nowMs, e.Members)
	case algo.Received:
		m.onReceived(nowMs, e.From, &e.Message)
	}
	return m.out
}

// Status returns the status after the last step.
func (m *Machine) Status() algo.Status {
	s := algo.Status{Leader: m.leader, Term: m.state.Term, Leads: m.leads, PromisedMs: m.promise.untilMs}
	if m.leads {
		s.UntilMs = m.untilMs
	}
	return s
}

// State returns what is on disk once the last step's effects are carried out.
func (m *Machine) State() algo.State { return m.state }

// WakeMs returns when something is due.
func (m *Machine) WakeMs() (int64, bool) {
	switch m.role {
	case leader:
		if !m.leads {
			return min(m.heartbeatAtMs, m.giveUpMs), true
		}
		return min(m.heartbeatAtMs, m.untilMs), true
	case preCandidate, candidate:
		return m.giveUpMs, true
	}
	wakeMs, ok := int64(0), false
	if m.leader != "" {
		wakeMs, ok = m.promise.untilMs, true
	}
	if m.wants && len(m.state.Config.Members) > 0 && (!ok || m.campaignAtMs < wakeMs) {
		wakeMs, ok = m.campaignAtMs, true
	}
	return wakeMs, ok
}

// tick does everything that is due by now.
func (m *Machine) tick(nowMs int64) {
	switch m.role {
	case leader:
		if m.leads && nowMs >= m.untilMs || !m.leads && nowMs >= m.giveUpMs {
			m.stepDown(nowMs, "")
			break
		}
		if nowMs >= m.heartbeatAtMs {
			m.heartbeat(nowMs)
		}
	case preCandidate, candidate:
		if nowMs >= m.giveUpMs {
			m.fail(nowMs)
		}
	}
	if m.role != follower {
		return
	}
	if m.leader != "" && nowMs >= m.promise.untilMs {
		m.follow("")
	}
	if m.wants && nowMs >= m.campaignAtMs {
		m.preVote(nowMs)
	}
}

// handlers has a function for each message of this algorithm.
var handlers = map[algo.MessageType]func(*Machine, int64, algo.ID, *algo.Message){
	algo.PreVote:          (*Machine).onPreVote,
	algo.PreVoteReply:     (*Machine).onPreVoteReply,
	algo.RequestVote:      (*Machine).onRequestVote,
	algo.RequestVoteReply: (*Machine).onRequestVoteReply,
	algo.Heartbeat:        (*Machine).onHeartbeat,
	algo.HeartbeatReply:   (*Machine).onHeartbeatReply,
	algo.TimeoutNow:       (*Machine).onTimeoutNow,
	algo.StepDown:         (*Machine).onStepDown,
}

func (m *Machine) onReceived(nowMs int64, from algo.ID, message *algo.Message) {
	handler := handlers[message.Type]
	if handler == nil || from == m.cfg.ID || !m.credible(message) {
		return
	}
	handler(m, nowMs, from, message)
}

// termJumpMax is how far terms can have advanced while a member was away: a new one each
// millisecond for seven weeks (raft-T6).
const termJumpMax = 1 << 32

// credible reports whether the terms of a message can be true (raft-T6).
func (m *Machine) credible(e *algo.Message) bool {
	limit := min(max(m.state.Term, m.state.Floor)+termJumpMax, algo.TermMax)
	return e.Term <= limit && e.TransferTerm <= e.Term && e.Config.Term <= limit
}

func (m *Machine) onCampaign(nowMs, laterMs int64) {
	m.laterMs = max(0, laterMs)
	if m.wants {
		return
	}
	m.wants = true
	if m.role != follower {
		return
	}
	m.campaignAtMs = max(nowMs, m.restMs)
	if m.promised(nowMs, m.cfg.ID, 0) {
		m.campaignAtMs = m.afterPromise()
	}
	m.tick(nowMs)
}

func (m *Machine) onWithdraw(nowMs int64) {
	m.wants = false
	switch m.role {
	case leader:
		m.stepDown(nowMs, "")
	case preCandidate, candidate:
		m.become(follower)
	}
}

// onTransfer steps down in favour of another member, or of itself in a new term.
func (m *Machine) onTransfer(nowMs int64, to algo.ID) {
	if m.role == leader {
		m.stepDown(nowMs, to)
	}
}

// stepDown ends this member's leadership, first locally, then for the others (raft-T4). If
// a successor was chosen, only it is told, so it campaigns before all others.
func (m *Machine) stepDown(nowMs int64, to algo.ID) {
	term := m.state.Term
	m.become(follower)
	m.promise = promise{}
	m.follow("")
	m.campaignAtMs = nowMs + m.laterMs + m.cfg.SpreadMs/2 + m.chance(m.cfg.SpreadMs)
	switch to {
	case "":
		m.sendAll(algo.Message{Type: algo.StepDown, Term: term})
	case m.cfg.ID:
		m.requestVotes(nowMs, term)
	default:
		m.restMs = nowMs + m.cfg.LeaseMs
		m.campaignAtMs += m.cfg.LeaseMs
		m.send(to, algo.Message{Type: algo.TimeoutNow, Term: term})
	}
}

// become leaves the present role. If that ends a leadership, it reports Lost.
func (m *Machine) become(r role) {
	if m.leads {
		m.leads = false
		m.emit(algo.Lost{Term: m.state.Term})
	}
	m.role, m.granted, m.refused, m.transferTerm = r, nil, nil, 0
	m.answered, m.adopted, m.pending, m.giveUpMs = nil, nil, nil, 0
}

// adopt takes over a higher term, which ends everything that this member did in its own.
func (m *Machine) adopt(term uint64) {
	invariant.Check(term > m.state.Term, "raft: a term went back")
	m.become(follower)
	m.state.Term, m.state.Vote = term, ""
	m.follow("")
}

// follow records who leads in this term.
func (m *Machine) follow(id algo.ID) {
	if m.leader != id {
		m.leader = id
		m.emit(algo.Follow{Leader: id, Term: m.state.Term})
	}
}

// promised reports whether a promise keeps this member from voting for a candidate.
func (m *Machine) promised(nowMs int64, id algo.ID, transferTerm uint64) bool {
	if m.role == leader && id != m.cfg.ID {
		return true // tick has already ended a leadership whose lease is over
	}
	return nowMs < m.promise.untilMs && m.promise.to != id && transferTerm < m.promise.term
}

// nextTerm returns the term in which this member would lead.
func (m *Machine) nextTerm() uint64 { return max(m.state.Term, m.state.Floor) + 1 }

func (m *Machine) quorum() int { return len(m.state.Config.Members)/2 + 1 }

func (m *Machine) member(id algo.ID) bool { return slices.Contains(m.state.Config.Members, id) }

func (m *Machine) emit(e algo.Effect) { m.out = append(m.out, e) }

func (m *Machine) persist() {
	state := m.state
	state.Config.Members = slices.Clone(state.Config.Members)
	m.emit(algo.Persist{State: state})
}

func (m *Machine) send(to algo.ID, message algo.Message) {
	m.emit(algo.Send{To: to, Message: message})
}

// sendAll sends to all other members of the configuration.
func (m *Machine) sendAll(message algo.Message) {
	for _, id := range m.state.Config.Members {
		if id != m.cfg.ID {
			m.send(id, message)
		}
	}
}

// configName returns this member's configuration in the form that requests and answers
// carry.
func (m *Machine) configName() algo.Config {
	return algo.Config{Term: m.state.Config.Term, Version: m.state.Config.Version}
}

// afterPromise returns when to campaign unless the leader sends another heartbeat.
func (m *Machine) afterPromise() int64 {
	return m.promise.untilMs + m.laterMs + m.chance(m.cfg.SpreadMs)
}

// random is xorshift64, the same in every run with the same seed.
func (m *Machine) random() uint64 {
	m.seed ^= m.seed << 13
	m.seed ^= m.seed >> 7
	m.seed ^= m.seed << 17
	return m.seed
}

// chance returns a random time from 0 to the limit.
func (m *Machine) chance(limitMs int64) int64 { return int64(m.random() % uint64(limitMs+1)) }
