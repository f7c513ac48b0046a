package elector

// endMs returns when the function must be told to end, so that it has its grace.
func (m *Machine) endMs() int64 { return m.deadlineMs - m.graceMs() }

// graceMs returns the grace that is possible with the lease from the store. If that lease is
// shorter than the one requested, the grace is shortened in proportion, so that renewals keep
// their share of the time. It is never more than half of what remains.
func (m *Machine) graceMs() int64 {
	grace := m.cfg.GraceMs
	if m.leaseMs < m.cfg.LeaseMs {
		grace = grace * m.leaseMs / m.cfg.LeaseMs
	}
	return min(grace, deadline(0, m.leaseMs, m.cfg.DriftPercent)/2)
}

// never is later than any time.
const never = int64(1<<63 - 1)

// stuckMs returns when to report a function that was told to end and still runs. While the
// leadership holds, that is at its limit (elector-L9). Otherwise it is at the deadline, but not
// before the grace has passed, even if the leadership ended without warning.
func (m *Machine) stuckMs() int64 {
	switch {
	case m.phase == fenced:
		return max(m.deadlineMs, m.endSaidMs+m.graceMs())
	case m.stuckSaid || m.cfg.EndLimitMs == 0:
		return never
	}
	return m.endSaidMs + m.cfg.EndLimitMs
}

// renewWake returns when the present renewal has taken too long, or the next is due.
func (m *Machine) renewWake() int64 {
	switch {
	case m.stuckSaid:
		return never
	case m.renewOpen:
		return m.renewSentMs + renewEvery(m.leaseMs)
	}
	return m.renewNextMs
}

// tick does everything that is due by now.
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

// onRenewed moves the deadline: forward, or back if the store gives a shorter lease than
// before. The answer to a renewal that was given up is as valid as any other. But an answer to
// a renewal that is older than one already answered promises nothing, because for the store the
// newer one counts.
func (m *Machine) onRenewed(e Renewed) {
	if e.Attempt != m.attempt || !m.Leads() {
		return
	}
	if m.renewOpen && e.Renewal == m.renewal {
		m.renewOpen = false
		// A backend may prove the grant by an older request than the one it was asked to make.
		// That must not lead to renewals without a pause.
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

// hurryMs returns the earliest time of a renewal after the last one. Neither frequent news nor
// an Ensure that a backend's old proofs do not satisfy may lead to renewals without a pause.
func (m *Machine) hurryMs() int64 { return m.renewSentMs + max(1, renewEvery(m.leaseMs)/16) }

// onHurry renews at once, or as soon as allowed. A renewal in progress may have been sent
// before the news, so another must follow it.
func (m *Machine) onHurry(nowMs int64, e Hurry) {
	switch {
	case e.Attempt != m.attempt || m.phase != leading:
	case m.renewOpen:
		m.renewHurry = true
	default:
		m.renewNextMs = min(m.renewNextMs, max(nowMs, m.hurryMs()))
	}
}

// onRenewFailed renews again soon, after a quarter of the usual pause, unless the store has
// said that the grant is gone.
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

// onEndSeen ends the leadership after the function was told to end by its own check of the
// clock: an answer that moved the deadline came a moment too late.
func (m *Machine) onEndSeen(nowMs int64, e EndSeen) {
	if e.Attempt == m.attempt && m.phase == leading {
		m.end(nowMs, Expired)
	}
}

// taken ends the leadership at once: another candidate may already lead.
func (m *Machine) taken(nowMs int64) {
	if m.phase == leading {
		m.end(nowMs, Taken)
	}
	if m.reason != Stopped {
		m.reason = Taken
	}
	m.lose(Taken)
}
