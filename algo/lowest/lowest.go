// Package lowest elects the member of the least id of which a beat was heard.
//
// It is the plainest of all: each candidate tells all members that it is alive
// (ALIVE), again and again; the least candidate heard of within SilenceMs leads.
// As in N. Lynch, "Distributed Algorithms" (1996), chapter 15, and many times
// before, with timeouts in the place of a synchronous round.
//
// What always holds, by number:
//
//	W1  A member leads only if it has listened for SilenceMs and heard of no
//	    lesser candidate since.
//	W2  A leader that hears of a lesser candidate leads no more.
//
// What is promised: when all messages arrive in less than SilenceMs - BeatMs and
// nobody is frozen, one member leads a while after the last change. What is not:
// cut in two, each part has a least member, and both lead until the cut is
// mended. A lesser member that comes back takes the leadership. There is no
// fencing token.
//
// Cost: no messages for an election, n(n-1) for each beat when all are
// candidates: O(n²). Time: SilenceMs.
package lowest

import "github.com/conclave-project/conclave/algo"

// Config is fixed for the life of a machine. Times are in milliseconds.
type Config struct {
	ID      algo.ID
	Members []algo.ID // all, this one included
	// BeatMs is the pause between beats, SilenceMs how long a candidate may be
	// silent.
	BeatMs, SilenceMs int64
}

// Machine is one member. It is not safe for concurrent use.
type Machine struct {
	cfg    Config
	out    []algo.Effect
	wants  bool
	leads  bool
	leader algo.ID
	beatMs int64             // when to beat
	fromMs int64             // when this member has listened long enough (W1)
	heard  map[algo.ID]int64 // until when each candidate counts as alive
}

// New returns a member.
func New(cfg Config) *Machine { return &Machine{cfg: cfg, heard: make(map[algo.ID]int64)} }

// Step takes one event and returns what to do, until the next step.
func (m *Machine) Step(nowMs int64, event algo.Event) []algo.Effect {
	m.out = m.out[:0]
	m.tick(nowMs)
	switch e := event.(type) {
	case algo.Campaign:
		if !m.wants {
			m.wants, m.fromMs, m.beatMs = true, nowMs+m.cfg.SilenceMs, nowMs
		}
	case algo.Withdraw:
		m.withdraw()
	case algo.Transfer:
		if m.leads {
			m.withdraw()
			m.wants, m.fromMs, m.beatMs = true, nowMs+m.cfg.SilenceMs, nowMs+m.cfg.SilenceMs
		}
	case algo.Received:
		m.onReceived(nowMs, e.From, e.Word)
	}
	m.tick(nowMs)
	return m.out
}

// Status returns what this member believes.
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
		due(m.beatMs)
		if !m.leads && m.leader == "" {
			due(m.fromMs)
		}
	}
	if untilMs, alive := m.heard[m.leader]; alive {
		due(untilMs)
	}
	return wakeMs, ok
}

// tick beats, forgets who was silent too long, and looks who is the least.
func (m *Machine) tick(nowMs int64) {
	for _, id := range m.cfg.Members {
		if untilMs, ok := m.heard[id]; ok && nowMs >= untilMs {
			delete(m.heard, id)
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
	if m.wants && nowMs >= m.beatMs {
		m.beatMs = nowMs + m.cfg.BeatMs
		m.sendAll(algo.Alive)
	}
}

// least is the candidate that leads, empty while there is none.
func (m *Machine) least(nowMs int64) algo.ID {
	var least algo.ID
	if m.wants && nowMs >= m.fromMs {
		least = m.cfg.ID
	}
	for _, id := range m.cfg.Members {
		if _, ok := m.heard[id]; ok && (least == "" || id < least) {
			least = id
		}
	}
	if m.wants && m.cfg.ID < least {
		return "" // it is this one's turn, when it has listened
	}
	return least
}

// withdraw lets the others know that this candidate is none any more.
func (m *Machine) withdraw() {
	if !m.wants {
		return
	}
	m.wants = false
	if m.leads {
		m.leads, m.leader = false, ""
		m.out = append(m.out, algo.Lost{}, algo.Follow{})
	}
	m.sendAll(algo.Free)
}

func (m *Machine) onReceived(nowMs int64, from algo.ID, word algo.Word) {
	switch word {
	case algo.Alive:
		m.heard[from] = nowMs + m.cfg.SilenceMs
	case algo.Free:
		delete(m.heard, from)
	}
}

func (m *Machine) sendAll(word algo.Word) {
	for _, id := range m.cfg.Members {
		if id != m.cfg.ID {
			m.out = append(m.out, algo.Send{To: id, Message: algo.Message{Word: word}})
		}
	}
}
