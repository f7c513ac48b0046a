package peernet

import "time"

// approach decides how to make the next connection to a peer: when, why, and at which of two
// places, the configured address or the one that the peer advertised. It is guarded by Votes.mu.
type approach struct {
	called    bool      // the peer dialed, and waits to be dialed back
	answers   bool      // the current attempt is to dial it back
	failed    bool      // the last attempt failed, or the peer did not speak on its connection
	elsewhere bool      // that attempt used the advertised address
	patient   time.Time // until then it is not dialed, unless it called
	pause     time.Duration
}

// due reports whether an attempt may begin.
func (a *approach) due(now time.Time) bool {
	return a.called || !now.Before(a.patient)
}

// begin begins an attempt, and reports whether it uses the advertised address. A peer that has
// not learned of a reconfig, or whose file has other addresses, is not where the configuration
// says, but may advertise where it is. So the two places take turns as long as attempts fail.
func (a *approach) begin(advertised bool) (elsewhere bool) {
	a.elsewhere = a.failed && !a.elsewhere && advertised
	a.called, a.answers, a.failed = false, a.called, false
	return a.elsewhere
}

// fail ends a failed attempt. If there is a connection, the peer still has to be dialed back:
// it does not know about that connection, so no vote reaches it there.
func (a *approach) fail(connected bool) {
	a.failed = true
	a.called = a.called || a.answers && connected
}

// connected ends the search, because there is a connection, no matter who made it.
func (a *approach) connected() {
	a.called, a.failed = false, false
}

// rest delays the next attempt after a connection has ended. The peer may have ended it to dial
// itself. If it sent nothing, there may be only a proxy behind the address that accepts any
// connection, or the peer may be elsewhere; then the pause doubles each time.
func (a *approach) rest(spoke bool, now time.Time) {
	a.pause = min(max(2*a.pause, pauseMin), pauseMax)
	if spoke {
		a.pause = pauseMin
	}
	a.failed = !spoke
	a.patient = now.Add(a.pause)
}
