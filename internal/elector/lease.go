package elector

// endMs is when the function must be told to end so that it has its grace.
func (m *Machine) endMs() int64 { return m.deadlineMs - m.graceMs() }

// graceMs is the grace that the lease leaves which the store gave: in proportion
// when that is shorter than the one asked for, so that renewals have the time
// that was meant for them, and never more than half.
func (m *Machine) graceMs() int64 {
	grace := m.cfg.GraceMs
	if m.leaseMs < m.cfg.LeaseMs {
		grace = grace * m.leaseMs / m.cfg.LeaseMs
	}
	return min(grace, deadline(0, m.leaseMs, m.cfg.DriftPercent)/2)
}

// never is later than any time.
const never = int64(1<<63 - 1)

// stuckMs is when a function that was told to end and still runs is reported: at
// its limit while the leadership holds (elector-L9), and else at the deadline, but with
// its grace even where the leadership ended without warning.
func (m *Machine) stuckMs() int64 {
	switch {
	case m.phase == fenced:
		return max(m.deadlineMs, m.endSaidMs+m.graceMs())
	case m.stuckSaid || m.cfg.EndLimitMs == 0:
		return never
	}
	return m.endSaidMs + m.cfg.EndLimitMs
}

// renewWake is when the present renewal has taken too long or the next is due.
func (m *Machine) renewWake() int64 {
	switch {
	case m.stuckSaid:
		return never
	case m.renewOpen:
		return m.renewSentMs + renewEvery(m.leaseMs)
	}
	return m.renewNextMs
}

// tick lets everything happen that is due by now.
func (m *Machine) tick(nowMs int64) {
	if m.phase == leading && nowMs >= m.endMs() {
		m.end(nowMs, Expired)
	}
	if m.phase == ending && nowMs >= m.deadlineMs {
		if m.reason != Stopped {
			m.reason = Expired
		}
		m.lose(Expired)
	}
	if (m.phase == ending || m.phase == fenced) && !m.stuckSaid && nowMs >= m.stuckMs() {
		m.stuckSaid = true
		m.closeRenewal()
		m.emit(Stuck{m.attempt})
	}
	if m.Leads() && nowMs >= m.renewWake() {
		m.renew(nowMs)
	}
	if nowMs < m.untilMs {
		return
	}
	switch m.phase {
	case abandoning:
		m.release(nowMs)
	case releasing:
		m.rest(nowMs)
	case waiting:
		if !m.unhealthy {
			m.campaign()
		}
	}
}

func (m *Machine) renew(nowMs int64) {
	m.closeRenewal()
	m.renewal++
	m.renewOpen = true
	m.renewSentMs = nowMs
	m.emit(Renew{m.attempt, m.renewal})
}

func (m *Machine) closeRenewal() {
	if m.renewOpen {
		m.renewOpen = false
		m.emit(CancelRenew{m.attempt, m.renewal})
	}
}

// onRenewed moves the deadline, forth or, if the store gives a shorter lease than
// before, back. The answer to a renewal that was given up is as true as any other,
// but one to an older renewal than was answered already promises nothing: the store
// goes by the newer.
func (m *Machine) onRenewed(e Renewed) {
	if e.Attempt != m.attempt || !m.Leads() {
		return
	}
	if m.renewOpen && e.Renewal == m.renewal {
		m.renewOpen = false
		// A backend may prove the grant by an older request than the one it
		// was asked to make; that must not turn into asking without pause.
		every := renewEvery(e.LeaseMs)
		m.renewNextMs = max(e.SentMs+every, m.renewSentMs+every/2)
		if m.renewHurry {
			m.renewHurry, m.renewNextMs = false, m.hurryMs()
		}
	}
	if e.SentMs >= m.provenMs {
		m.provenMs, m.leaseMs = e.SentMs, e.LeaseMs
		m.deadlineMs = deadline(e.SentMs, e.LeaseMs, m.cfg.DriftPercent)
		m.emit(Extend{m.attempt, m.deadlineMs, m.endMs()})
	}
	m.onRival(e.Rival)
}

// hurryMs is when a renewal may follow the last one at the earliest: much news, or an Ensure
// that a backend's old proofs do not satisfy, must not turn into asking without pause, either.
func (m *Machine) hurryMs() int64 { return m.renewSentMs + max(1, renewEvery(m.leaseMs)/16) }

// onHurry renews at once, or as soon as that may be. A renewal on its way may have been sent
// before the news, so that another must follow it.
func (m *Machine) onHurry(nowMs int64, e Hurry) {
	switch {
	case e.Attempt != m.attempt || m.phase != leading:
	case m.renewOpen:
		m.renewHurry = true
	default:
		m.renewNextMs = min(m.renewNextMs, max(nowMs, m.hurryMs()))
	}
}

// onRenewFailed asks again soon, at a quarter of the usual pause, unless the
// store said that the grant is gone.
func (m *Machine) onRenewFailed(nowMs int64, e RenewFailed) {
	if e.Attempt != m.attempt || !m.Leads() {
		return
	}
	if e.Lost {
		m.taken(nowMs)
		return
	}
	if m.renewOpen && e.Renewal == m.renewal {
		m.renewOpen = false
		m.renewNextMs = nowMs + max(1, renewEvery(m.leaseMs)/4)
	}
}

func (m *Machine) onLossSeen(nowMs int64, e LossSeen) {
	if e.Attempt == m.attempt && m.Leads() {
		m.taken(nowMs)
	}
}

// onEndSeen ends what the function was told to end already, by its own look at the
// clock: an answer that moved the deadline came a moment too late for that.
func (m *Machine) onEndSeen(nowMs int64, e EndSeen) {
	if e.Attempt == m.attempt && m.phase == leading {
		m.end(nowMs, Expired)
	}
}

// taken ends the leadership at once: somebody else may lead already.
func (m *Machine) taken(nowMs int64) {
	if m.phase == leading {
		m.end(nowMs, Taken)
	}
	if m.reason != Stopped {
		m.reason = Taken
	}
	m.lose(Taken)
}
