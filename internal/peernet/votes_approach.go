package peernet

import "time"

// approach is how the next connection to a peer comes about: when, for what, and at which of the
// two places where the peer may be, that of the configuration and the one it advertised. It is
// guarded by Votes.mu.
type approach struct {
	called    bool      // the peer dialed, and waits to be dialed back
	answers   bool      // the attempt under way is for that
	failed    bool      // the last attempt came to nothing, or nobody spoke on what came of it
	elsewhere bool      // that attempt was at what the peer advertised
	patient   time.Time // until then it is not dialed, unless it called
	pause     time.Duration
}

// due reports whether an attempt may begin.
func (a *approach) due(now time.Time) bool {
	return a.called || !now.Before(a.patient)
}

// begin begins an attempt, and reports whether it goes to what the peer advertised. One that has
// not learned of a reconfig, or whose file has other addresses, is not where the configuration
// says, but may say where it is. So the two places take turns for as long as attempts fail.
func (a *approach) begin(advertised bool) (elsewhere bool) {
	a.elsewhere = a.failed && !a.elsewhere && advertised
	a.called, a.answers, a.failed = false, a.called, false
	return a.elsewhere
}

// fail ends an attempt that came to nothing. The peer still waits to be dialed back if it has a
// connection: that takes no vote to one that knows of none.
func (a *approach) fail(connected bool) {
	a.failed = true
	a.called = a.called || a.answers && connected
}

// connected ends the search: there is a connection, no matter who made it.
func (a *approach) connected() {
	a.called, a.failed = false, false
}

// rest puts off the next attempt after a connection that has ended. The peer may have ended it to
// dial itself. If it has said nothing on it, there may be no server behind the address but a proxy
// that takes any connection, or it is elsewhere: each time the pause is twice as long.
func (a *approach) rest(spoke bool, now time.Time) {
	a.pause = min(max(2*a.pause, pauseMin), pauseMax)
	if spoke {
		a.pause = pauseMin
	}
	a.failed = !spoke
	a.patient = now.Add(a.pause)
}
