// Package bully elects the live member with the greatest id, by the Bully algorithm.
//
// After H. Garcia-Molina, "Elections in a Distributed Computing System", IEEE
// Transactions on Computers C-31(1), 1982. A member that misses the leader asks
// all greater members (ELECTION). Those that are alive answer (ANSWER) and hold
// an election of their own. A member that gets no answer within AnswerMs leads:
// it announces itself to all (COORDINATOR), and then sends heartbeats.
//
// What always holds, by number:
//
//	bully-B1  A member leads only if no greater one answered it for AnswerMs.
//	bully-B2  A leader that learns of a greater one leads no more.
//
// Promised: if all messages arrive within AnswerMs/2 and no member is frozen, one member leads
// some time after the last change. Not promised: in a partition each part elects its greatest
// member, and both lead until the partition heals. A greater member that comes back takes the
// leadership, and both lead until its message arrives at the other. There is no fencing token.
//
// Cost: n(n-1) messages at worst, when all of the others hold an election; n at
// best, when only the greatest of them does: hence O(n²) and O(n). Time:
// the silence after which the leader is missed, and one AnswerMs.
package bully

import "github.com/conclave-project/conclave/algo"

// Config is fixed for the life of a machine. Times are in milliseconds.
type Config struct {
	ID      algo.ID
	Members []algo.ID // all, this one included
	// HeartbeatMs is the pause between heartbeats, SilenceMs how long a leader may be
	// silent, AnswerMs how long to wait for an answer.
	HeartbeatMs, SilenceMs, AnswerMs int64
}

type phase uint8

const (
	idle     phase = iota // follows, or has no leader to follow
	electing              // has asked all greater members
	waiting               // a greater member answered and will lead
	leading
)

// Machine is one member. It is not safe for concurrent use.
type Machine struct {
	cfg    Config
	out    []algo.Effect
	wants  bool
	phase  phase
	leader algo.ID
	// untilMs is when the phase has lasted too long; while leading, when to send a
	// heartbeat; while idle, when the leader counts as dead.
	untilMs int64
}

// New returns a member.
func New(cfg Config) *Machine { return &Machine{cfg: cfg} }

// Step takes one event and returns what to do, until the next step.
func (m *Machine) Step(nowMs int64, event algo.Event) []algo.Effect {
	m.out = m.out[:0]
	m.tick(nowMs)
	switch e := event.(type) {
	case algo.Campaign:
		m.onCampaign(nowMs)
	case algo.Withdraw:
		m.wants = false
		m.stepDown(nowMs)
	case algo.Transfer:
		m.stepDown(nowMs)
	case algo.Received:
		m.onReceived(nowMs, e.From, e.Type)
	}
	return m.out
}

// Status returns what this member knows.
func (m *Machine) Status() algo.Status {
	return algo.Status{Leader: m.leader, Leads: m.phase == leading}
}

// WakeMs returns when something is due.
func (m *Machine) WakeMs() (int64, bool) {
	return m.untilMs, m.phase != idle || m.leader != ""
}

func (m *Machine) tick(nowMs int64) {
	if _, ok := m.WakeMs(); !ok || nowMs < m.untilMs {
		return
	}
	switch m.phase {
	case idle:
		m.follow("")
		m.elect(nowMs)
	case electing:
		m.win(nowMs)
	case waiting:
		m.elect(nowMs)
	case leading:
		m.heartbeat(nowMs)
	}
}

func (m *Machine) onCampaign(nowMs int64) {
	m.wants = true
	if m.phase == idle && m.leader < m.cfg.ID {
		m.elect(nowMs)
	}
}

// elect asks all greater members; if there are none, this member leads.
func (m *Machine) elect(nowMs int64) {
	if !m.wants {
		return
	}
	m.phase, m.untilMs = electing, nowMs+m.cfg.AnswerMs
	asked := false
	for _, id := range m.cfg.Members {
		if id > m.cfg.ID {
			m.send(id, algo.Election)
			asked = true
		}
	}
	if !asked {
		m.win(nowMs)
	}
}

func (m *Machine) win(nowMs int64) {
	m.phase, m.untilMs = leading, nowMs+m.cfg.HeartbeatMs
	m.sendAll(algo.Coordinator)
	m.follow(m.cfg.ID)
	m.out = append(m.out, algo.Lead{})
}

func (m *Machine) heartbeat(nowMs int64) {
	m.untilMs = nowMs + m.cfg.HeartbeatMs
	m.sendAll(algo.Heartbeat)
}

// stepDown sends StepDown to all, if this member leads.
func (m *Machine) stepDown(nowMs int64) {
	led := m.phase == leading
	m.leave()
	if led {
		m.follow("")
		m.sendAll(algo.StepDown)
	}
	if m.wants {
		m.phase, m.untilMs = waiting, nowMs+2*m.cfg.AnswerMs
	}
}

// leave ends whatever this member is doing; if it leads, with Lost.
func (m *Machine) leave() {
	if m.phase == leading {
		m.out = append(m.out, algo.Lost{})
	}
	m.phase = idle
}

func (m *Machine) onReceived(nowMs int64, from algo.ID, kind algo.MessageType) {
	switch kind {
	case algo.Election:
		m.onElection(nowMs, from)
	case algo.Answer:
		if m.phase == electing {
			m.phase, m.untilMs = waiting, nowMs+2*m.cfg.AnswerMs
		}
	case algo.Coordinator, algo.Heartbeat:
		m.onLeader(nowMs, from)
	case algo.StepDown:
		if from == m.leader {
			m.follow("")
			m.elect(nowMs)
		}
	}
}

// onElection answers a lesser member, and ensures that there is a leader.
func (m *Machine) onElection(nowMs int64, from algo.ID) {
	if !m.wants || from > m.cfg.ID {
		return
	}
	m.send(from, algo.Answer)
	switch m.phase {
	case leading:
		m.send(from, algo.Coordinator)
	case idle:
		m.elect(nowMs)
	}
}

// onLeader follows a leader that is greater than this member, and bullies a lesser one.
func (m *Machine) onLeader(nowMs int64, from algo.ID) {
	if m.wants && from < m.cfg.ID {
		switch m.phase {
		case leading:
			m.send(from, algo.Coordinator)
		case idle:
			m.elect(nowMs)
		}
		return
	}
	if from < m.leader && m.phase == idle {
		return // the greater one has not been silent for long enough
	}
	m.leave()
	m.untilMs = nowMs + m.cfg.SilenceMs
	m.follow(from)
}

func (m *Machine) follow(id algo.ID) {
	if m.leader != id {
		m.leader = id
		m.out = append(m.out, algo.Follow{Leader: id})
	}
}

func (m *Machine) send(to algo.ID, kind algo.MessageType) {
	m.out = append(m.out, algo.Send{To: to, Message: algo.Message{Type: kind}})
}

func (m *Machine) sendAll(kind algo.MessageType) {
	for _, id := range m.cfg.Members {
		if id != m.cfg.ID {
			m.send(id, kind)
		}
	}
}
