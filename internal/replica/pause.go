package replica

// pause is what a pause of the whole process leaves: for a tick no session ends, and no
// server is taken for silent. A tick is twice the time between two pings: what clients
// and servers have sent during the pause is in the sockets, and arrives after the step
// that finds it.
type pause struct {
	beganMs int64
	untilMs int64 // no session ends before; 0 when sessions have been looked at since
}

// Paused reports whether a process was paused if it has had no step for so long, each
// time in milliseconds: its shell gives it a tick four times as often as the ensemble's
// tick, and at least once a second.
func Paused(sinceMs, tickMs int64) bool { return sinceMs > min(tickMs/4, 1000)+max(tickMs/4, 1) }

// begin notes a pause between two steps. One pause after the other must not keep the
// sessions of the dead: the delay is granted again when they were looked at.
func (p *pause) begin(beganMs, untilMs int64) {
	if p.untilMs == 0 {
		*p = pause{beganMs: beganMs, untilMs: untilMs}
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

// lagMs returns how long ago that arrived which this server has not looked at yet.
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
