// Package lowest elects the member with the least id among those that send heartbeats.
//
// It is the simplest algorithm: each candidate sends heartbeats to all members (ALIVE), and the
// least candidate that sent one within SilenceMs leads. It follows N. Lynch, "Distributed
// Algorithms" (1996), chapter 15, among many others, with timeouts in place of synchronous
// rounds.
//
// What always holds, by number:
//
//	lowest-W1  A member leads only if it has listened for SilenceMs and received
//	           no heartbeat of a lesser candidate since.
//	lowest-W2  A leader that learns of a lesser candidate leads no more.
//
// Promised: if all messages arrive in less than SilenceMs - HeartbeatMs and no member is frozen,
// one member leads some time after the last change. Not promised: in a partition each part has a
// least member, and both lead until the partition heals. A lesser member that comes back takes
// the leadership. There is no fencing token.
//
// Cost: no messages for an election, n(n-1) for each heartbeat when all are
// candidates: O(n²). Time: SilenceMs.
package lowest

import "github.com/conclave-project/conclave/algo"

// Config is fixed for the life of a machine. Times are in milliseconds.
type Config struct {
	ID      algo.ID
	Members []algo.ID // all, this one included
	// HeartbeatMs is the pause between heartbeats, SilenceMs how long a candidate
	// may be silent.
	HeartbeatMs, SilenceMs int64
}

// Machine is one member. It is not safe for concurrent use.
type Machine struct {
	cfg          Config
	out          []algo.Effect
	wants        bool
	leads        bool
	leader       algo.ID
	heartbeatMs  int64             // when to send a heartbeat
	fromMs       int64             // when this member has listened long enough (lowest-W1)
	aliveUntilMs map[algo.ID]int64 // until when each candidate counts as alive
}

// New returns a member.
func New(cfg Config) *Machine { return &Machine{cfg: cfg, aliveUntilMs: make(map[algo.ID]int64)} }

// Step takes one event and returns what to do, until the next step.
func (m *Machine) Step(nowMs int64, event algo.Event) []algo.Effect {
	m.out = m.out[:0]
	m.tick(nowMs)
	switch e := event.(type) {
	case algo.Campaign:
		if !m.wants {
			m.wants, m.fromMs, m.heartbeatMs = true, nowMs+m.cfg.SilenceMs, nowMs
		}
	case algo.Withdraw:
		m.withdraw()
	case algo.Transfer:
		if m.leads {
			m.withdraw()
			m.wants, m.fromMs, m.heartbeatMs = true, nowMs+m.cfg.SilenceMs, nowMs+m.cfg.SilenceMs
		}
	case algo.Received:
		m.onReceived(nowMs, e.From, e.Type)
	}
	m.tick(nowMs)
	return m.out
}

// Status returns what this member knows.
func (m *Machine) Status() algo.Status { return algo.Status{Leader: m.leader, Leads: m.leads} }

// WakeMs returns when something is due.
func (m *Machine) WakeMs() (int64, bool) {
	wakeMs, ok := int64(0), false
	due := func(ms int64) {
		if !ok || ms < wakeMs {
			wakeMs, ok = ms, true
		}
	}
	if m.wants {
		due(m.heartbeatMs)
		if !m.leads && m.leader == "" {
			due(m.fromMs)
		}
	}
	if untilMs, alive := m.aliveUntilMs[m.leader]; alive {
		due(untilMs)
	}
	return wakeMs, ok
}

// tick sends the heartbeat, forgets candidates that were silent too long, and
// finds the least.
func (m *Machine) tick(nowMs int64) {
	for _, id := range m.cfg.Members {
		if untilMs, ok := m.aliveUntilMs[id]; ok && nowMs >= untilMs {
			delete(m.aliveUntilMs, id)
		}
	}
	least := m.least(nowMs)
	if m.leads && least != m.cfg.ID {
		m.leads = false
		m.out = append(m.out, algo.Lost{})
	}
	if m.leader != least {
		m.leader = least
		m.out = append(m.out, algo.Follow{Leader: least})
	}
	if least == m.cfg.ID && !m.leads {
		m.leads = true
		m.out = append(m.out, algo.Lead{})
	}
	if m.wants && nowMs >= m.heartbeatMs {
		m.heartbeatMs = nowMs + m.cfg.HeartbeatMs
		m.sendAll(algo.Alive)
	}
}

// least returns the candidate that leads, empty while there is none.
func (m *Machine) least(nowMs int64) algo.ID {
	var least algo.ID
	if m.wants && nowMs >= m.fromMs {
		least = m.cfg.ID
	}
	for _, id := range m.cfg.Members {
		if _, ok := m.aliveUntilMs[id]; ok && (least == "" || id < least) {
			least = id
		}
	}
	if m.wants && m.cfg.ID < least {
		return "" // this one is the least, but must listen for longer
	}
	return least
}

// withdraw sends StepDown to all: this member is no longer a candidate.
func (m *Machine) withdraw() {
	if !m.wants {
		return
	}
	m.wants = false
	if m.leads {
		m.leads, m.leader = false, ""
		m.out = append(m.out, algo.Lost{}, algo.Follow{})
	}
	m.sendAll(algo.StepDown)
}

func (m *Machine) onReceived(nowMs int64, from algo.ID, kind algo.MessageType) {
	switch kind {
	case algo.Alive:
		m.aliveUntilMs[from] = nowMs + m.cfg.SilenceMs
	case algo.StepDown:
		delete(m.aliveUntilMs, from)
	}
}

func (m *Machine) sendAll(kind algo.MessageType) {
	for _, id := range m.cfg.Members {
		if id != m.cfg.ID {
			m.out = append(m.out, algo.Send{To: id, Message: algo.Message{Type: kind}})
		}
	}
}
