package replica

// pause is what a pause of the whole process leaves: for a tick no session ends, and no
// server is taken for silent. A tick is twice the time between two pings: what clients
// and servers have sent during the pause is in the sockets, and arrives after the step
// that finds it.
type pause struct {
	beganMs int64
	untilMs int64 // no session ends before; 0 when sessions have been looked at since
	delays  int   // that have followed each other
}

// Paused reports whether a process was paused if it has had no step for so long, each
// time in milliseconds: its shell gives it a tick four times as often as the ensemble's
// tick, and at least once a second.
func Paused(sinceMs, tickMs int64) bool { return sinceMs > min(tickMs/4, 1000)+max(tickMs/4, 1) }

// delaysMax is how many delays may follow each other. One pause after the other must not
// keep the sessions of the dead: after so many they are looked at.
const delaysMax = 3

// begin notes a pause between two steps, and delays for so long. A pause that begins
// within the delay of an earlier one, and lasts beyond it, has a delay of its own: a
// machine that is moved stops for a moment, and then for long.
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
