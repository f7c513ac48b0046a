package elector

// rivalRenewals is how many renewals in a row must report a rival before it is nominated: a
// rival that disappears again changes nothing.
const rivalRenewals = 2

// onTransfer nominates the candidate that was asked for. Only one nomination runs at a time. A
// request during a requested nomination gets its turn afterwards; the nomination of a rival
// gives way, because nobody waits for it.
func (m *Machine) onTransfer() {
	if m.phase == leading && (!m.nominationOpen || m.nominatesRival) {
		m.nominate(false)
	}
}

func (m *Machine) nominate(rival bool) {
	m.nomination++
	m.nominationOpen, m.nominatesRival = true, rival
	m.emit(Nominate{m.attempt, m.nomination, rival})
}

// onNominated ends the leadership once the other candidate is ready (elector-L7).
func (m *Machine) onNominated(nowMs int64, e Nominated) {
	if e.Attempt != m.attempt || e.Nomination != m.nomination || !m.nominationOpen {
		return
	}
	m.nominationOpen = false
	if !e.Ready {
		// After each rival that leads to nothing we wait longer before the next.
		m.refused++
		m.outranked = -min(m.refused, 8) * rivalRenewals
		return
	}
	m.said.ready = true
	if m.phase == leading {
		m.end(nowMs, Transferred)
	}
}

// onRival nominates a rival that stays for long enough.
func (m *Machine) onRival(there bool) {
	if !there {
		m.outranked, m.refused = 0, 0
		return
	}
	m.outranked++
	if m.outranked >= rivalRenewals && m.phase == leading && !m.nominationOpen {
		m.nominate(true)
	}
}

// onHealth counts health checks. The first one that passes makes a candidate healthy.
func (m *Machine) onHealth(nowMs int64, e Health) {
	if e.Passed {
		m.checksLost, m.unhealthy = 0, false
		return
	}
	m.checksLost++
	if m.checksLost < m.cfg.HealthFailures {
		return
	}
	m.unhealthy = true
	switch m.phase {
	case leading:
		m.end(nowMs, Unhealthy)
	case campaigning:
		m.abandon(nowMs)
	}
}
