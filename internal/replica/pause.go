package replica

// pause is the delay after a pause of the whole process: for one tick no session ends, and no
// server is considered silent. A tick is twice the time between two pings. What clients and
// servers sent during the pause is in the sockets, and arrives after the step that notices the
// pause.
type pause struct {
	beganMs int64
	untilMs int64 // no session ends before; 0 once sessions have been checked again
	delays  int   // how many have followed each other
}

// Paused reports whether a process must have been paused, given the time since its last step
// and the tick, both in milliseconds. Its shell gives it a step four times per tick, and at
// least once a second.
func Paused(sinceMs, tickMs int64) bool { return sinceMs > min(tickMs/4, 1000)+max(tickMs/4, 1) }

// delaysMax is how many delays may follow each other. A series of pauses must not keep the
// sessions of dead clients alive: after so many delays sessions are checked.
const delaysMax = 3

// begin records a pause between two steps, and delays for delayMs. A pause that begins within
// the delay of an earlier one, and lasts beyond it, gets a delay of its own: a machine that is
// migrated stops for a moment, and then for a long time.
func (p *pause) begin(beganMs, nowMs, delayMs int64) {
	switch {
	case p.untilMs == 0:
		*p = pause{beganMs: beganMs, untilMs: nowMs + delayMs, delays: 1}
	case nowMs >= p.untilMs && p.delays < delaysMax:
		p.untilMs = nowMs + delayMs
		p.delays++
	}
}

// over reports whether sessions may end.
func (p *pause) over(nowMs int64) bool {
	if nowMs < p.untilMs {
		return false
	}
	*p = pause{}
	return true
}

// lagMs returns the age of the oldest arrival that this server has not looked at yet.
func (p *pause) lagMs(now Now) int64 {
	sinceMs := now.MonoMs
	if now.ArrivedMs != 0 {
		sinceMs = min(sinceMs, now.ArrivedMs)
	}
	if now.MonoMs < p.untilMs {
		sinceMs = min(sinceMs, p.beganMs)
	}
	return now.MonoMs - sinceMs
}
