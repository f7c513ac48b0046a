// Package ring elects the member with the greatest id on a ring, by the algorithm of Chang
// and Roberts.
//
// After E. Chang, R. Roberts, "An improved algorithm for decentralized extrema-finding in
// circular configurations of processes", CACM 22(5), 1979. A member that misses the leader
// sends its id to its successor (TOKEN). Each member passes on an id greater than its own,
// and drops a lesser one once it has sent its own. The member whose id comes back leads: it
// announces itself around the ring (ELECTED), and then sends heartbeats around it (ALIVE).
//
// The paper's ring does not break. Here every message is confirmed (PASSED); a successor
// that does not confirm in PassMs is skipped for SilenceMs, so the ring closes around dead
// members. A message that has gone around twice is dropped, because otherwise the id of a
// member that has died would go around for ever.
//
// What always holds, by number:
//
//	ring-C1  A member leads only if its id came back to it, or no member confirms.
//	ring-C2  A leader that learns of a greater one leads no more.
//
// Promised: if all messages arrive within PassMs/2 and no member is frozen, one member
// leads some time after the last change. Not promised: in a partition the ring closes into
// two rings with a leader each. There is no fencing token.
//
// Cost: n(n+1)/2 + n messages at worst, when all begin at once and ids fall along the ring;
// n(1 + 1/2 + ... + 1/n) + n on average; 2n when the greatest begins alone: hence O(n²),
// O(n log n), O(n). Confirmations double that. Time: the silence after which the leader is
// missed, up to 3n-1 messages in a row, and PassMs for each dead member.
package ring

import (
	"slices"

	"github.com/conclave-project/conclave/algo"
)

// Config is fixed for the life of a machine. Times are in milliseconds.
type Config struct {
	ID      algo.ID
	Members []algo.ID // all, this one included, in the order of the ring
	// HeartbeatMs is the pause between heartbeats, SilenceMs how long a leader may be
	// silent, PassMs how long to wait for a confirmation.
	HeartbeatMs, SilenceMs, PassMs int64
}

// passing is a message that was sent and not confirmed yet.
type passing struct {
	to      algo.ID
	message algo.Message
	untilMs int64
}

// Machine is one member. It is not safe for concurrent use. In its messages, Member is the
// id that goes around, Term how often it was passed on, and Round the number of the
// message.
type Machine struct {
	cfg         Config
	out         []algo.Effect
	wants       bool
	participant bool // it has passed on its own id, or a greater one
	leads       bool
	leader      algo.ID
	untilMs     int64 // leading: when to send a heartbeat; else when the leader counts as dead
	electMs     int64 // participant: when the election has taken too long
	round       uint64
	passing     []passing
	dead        map[algo.ID]int64 // until when each member is skipped
}

// New returns a member.
func New(cfg Config) *Machine { return &Machine{cfg: cfg, dead: make(map[algo.ID]int64)} }

// Step takes one event and returns what to do, until the next step.
func (m *Machine) Step(nowMs int64, event algo.Event) []algo.Effect {
	m.out = m.out[:0]
	m.tick(nowMs)
	switch e := event.(type) {
	case algo.Campaign:
		m.wants = true
		if m.leader < m.cfg.ID {
			m.elect(nowMs)
		}
	case algo.Withdraw:
		m.wants, m.participant = false, false
		m.stepDown()
	case algo.Transfer:
		m.stepDown()
		m.participant, m.electMs = m.wants, nowMs+m.electionMs()
	case algo.Received:
		m.onReceived(nowMs, e.From, e.Message)
	}
	return m.out
}

// Status returns what this member knows.
func (m *Machine) Status() algo.Status { return algo.Status{Leader: m.leader, Leads: m.leads} }

// WakeMs returns when something is due.
func (m *Machine) WakeMs() (int64, bool) {
	wakeMs, ok := m.untilMs, m.leader != ""
	due := func(ms int64) {
		if !ok || ms < wakeMs {
			wakeMs, ok = ms, true
		}
	}
	if m.participant && m.wants {
		due(m.electMs)
	}
	for _, p := range m.passing {
		due(p.untilMs)
	}
	return wakeMs, ok
}

// electionMs is how long an election may take before it begins again.
func (m *Machine) electionMs() int64 { return m.cfg.SilenceMs + m.cfg.PassMs*int64(len(m.cfg.Members)) }

func (m *Machine) tick(nowMs int64) {
	m.repair(nowMs)
	switch {
	case m.leads && nowMs >= m.untilMs:
		m.untilMs = nowMs + m.cfg.HeartbeatMs
		m.pass(nowMs, algo.Message{Type: algo.Alive, Member: m.cfg.ID})
	case !m.leads && m.leader != "" && nowMs >= m.untilMs:
		m.follow("")
		m.elect(nowMs)
	case m.wants && m.participant && nowMs >= m.electMs:
		m.participant = false
		m.elect(nowMs)
	}
}

// elect sends this member's own id around the ring.
func (m *Machine) elect(nowMs int64) {
	if !m.wants || m.participant || m.leads {
		return
	}
	m.participant, m.electMs = true, nowMs+m.electionMs()
	m.pass(nowMs, algo.Message{Type: algo.Token, Member: m.cfg.ID})
}

// pass sends a message to the next member that is not skipped. If all others are skipped,
// the member's own id has come around, and any other message is dropped.
func (m *Machine) pass(nowMs int64, message algo.Message) {
	to := m.successor(nowMs)
	if to == m.cfg.ID {
		if message.Type == algo.Token && message.Member == m.cfg.ID {
			m.takeToken(nowMs, message)
		}
		return
	}
	m.round++
	message.Round = m.round
	m.passing = append(m.passing, passing{to, message, nowMs + m.cfg.PassMs})
	m.out = append(m.out, algo.Send{To: to, Message: message})
}

func (m *Machine) successor(nowMs int64) algo.ID {
	own := slices.Index(m.cfg.Members, m.cfg.ID)
	for i := range m.cfg.Members {
		id := m.cfg.Members[(own+1+i)%len(m.cfg.Members)]
		if id == m.cfg.ID || nowMs >= m.dead[id] {
			return id
		}
	}
	return m.cfg.ID
}

// repair skips members that did not confirm, and passes their messages on to the next ones.
func (m *Machine) repair(nowMs int64) {
	var again []algo.Message
	m.passing = slices.DeleteFunc(m.passing, func(p passing) bool {
		if nowMs < p.untilMs {
			return false
		}
		m.dead[p.to] = nowMs + m.cfg.SilenceMs
		again = append(again, p.message)
		return true
	})
	for _, message := range again {
		m.pass(nowMs, message)
	}
}

func (m *Machine) onReceived(nowMs int64, from algo.ID, e algo.Message) {
	delete(m.dead, from)
	switch e.Type {
	case algo.Passed:
		m.passing = slices.DeleteFunc(m.passing, func(p passing) bool {
			return p.to == from && p.message.Round == e.Round
		})
	case algo.StepDown:
		if from == m.leader {
			m.follow("")
			m.elect(nowMs)
		}
	case algo.Token, algo.Elected, algo.Alive:
		m.out = append(m.out, algo.Send{To: from, Message: algo.Message{Type: algo.Passed, Round: e.Round}})
		if e.Term++; e.Term <= uint64(2*len(m.cfg.Members)) {
			m.take(nowMs, e)
		}
	}
}

// take handles an id that comes around.
func (m *Machine) take(nowMs int64, e algo.Message) {
	if e.Type == algo.Token {
		m.takeToken(nowMs, e)
		return
	}
	switch {
	case e.Member == m.cfg.ID:
	case m.wants && e.Member < m.cfg.ID:
		if m.leads { // the other one does not know about this one yet
			m.pass(nowMs, algo.Message{Type: algo.Elected, Member: m.cfg.ID})
			return
		}
		m.elect(nowMs)
	case e.Member < m.leader && nowMs < m.untilMs:
	default:
		m.leave()
		m.participant = false
		m.untilMs = nowMs + m.cfg.SilenceMs
		m.follow(e.Member)
		m.pass(nowMs, e)
	}
}

func (m *Machine) takeToken(nowMs int64, e algo.Message) {
	switch {
	case e.Member == m.cfg.ID:
		m.comeHome(nowMs)
	case !m.wants || e.Member > m.cfg.ID:
		if m.wants {
			m.participant, m.electMs = true, nowMs+m.electionMs()
		}
		m.pass(nowMs, e)
	case e.Member < m.cfg.ID:
		if m.leads {
			m.pass(nowMs, algo.Message{Type: algo.Elected, Member: m.cfg.ID})
		} else {
			m.elect(nowMs)
		}
	}
}

// comeHome makes this member the leader when its own id has gone around, unless it has
// withdrawn or leads already.
func (m *Machine) comeHome(nowMs int64) {
	if !m.wants || !m.participant || m.leads {
		return
	}
	m.participant, m.leads = false, true
	m.untilMs = nowMs + m.cfg.HeartbeatMs
	m.follow(m.cfg.ID)
	m.out = append(m.out, algo.Lead{})
	m.pass(nowMs, algo.Message{Type: algo.Elected, Member: m.cfg.ID})
}

// leave ends a leadership.
func (m *Machine) leave() {
	if m.leads {
		m.leads = false
		m.out = append(m.out, algo.Lost{})
	}
}

// stepDown sends StepDown to all, if this member leads.
func (m *Machine) stepDown() {
	if !m.leads {
		return
	}
	m.leave()
	m.follow("")
	for _, id := range m.cfg.Members {
		if id != m.cfg.ID {
			m.out = append(m.out, algo.Send{To: id, Message: algo.Message{Type: algo.StepDown}})
		}
	}
}

func (m *Machine) follow(id algo.ID) {
	if m.leader != id {
		m.leader = id
		m.out = append(m.out, algo.Follow{Leader: id})
	}
}
