package replica

import (
	"github.com/conclave-project/conclave/internal/fle"
)

// candidacy is this server's part in the elections of its ensemble, and when it takes part.
type candidacy struct {
	machine   *fle.Machine   // nil for a standalone server
	observes  bool           // the role that the machine was made for
	appointed *fle.Appointed // the leader that a reconfiguration has chosen, without an election
	fruitless int            // elections since this server last had a role that was established
	lookAtMs  int64          // when to begin the next one, 0: none is postponed
}

// enrol makes a new machine, with which this server takes part.
func (c *candidacy) enrol(config fle.Config, ensemble fle.Ensemble) {
	c.observes = config.Observer
	c.machine = fle.New(config, ensemble)
}

// looking reports whether an election is under way.
func (c *candidacy) looking() bool { return c.machine != nil && c.machine.State() == fle.Looking }

// postpone reports whether the next election has to wait because several have led to nothing. A
// leader that refuses this server, for example, would otherwise be asked again as fast as it
// can refuse. The first two elections need no pause; then the pause doubles up to maxMs.
func (c *candidacy) postpone(nowMs, maxMs int64) bool {
	const free, firstMs = 2, 10
	c.fruitless++
	if c.fruitless <= free {
		return false
	}
	c.lookAtMs = nowMs + min(firstMs<<min(c.fruitless-free-1, 10), maxMs)
	return c.lookAtMs > nowMs
}

// begin ends the wait for an election.
func (c *candidacy) begin() { c.lookAtMs = 0 }

// waits reports whether an election is postponed.
func (c *candidacy) waits() bool { return c.lookAtMs != 0 }

// due reports whether a postponed election begins now.
func (c *candidacy) due(nowMs int64) bool { return c.waits() && c.lookAtMs <= nowMs }

// succeeded records that a role is established.
func (c *candidacy) succeeded() { c.fruitless = 0 }

// appoint sets the leader that follows without an election; nil for none.
func (c *candidacy) appoint(a *fle.Appointed) { c.appointed = a }

// wakeMs returns when the election next has something to do; false for never.
func (c *candidacy) wakeMs() (int64, bool) {
	if c.waits() {
		return c.lookAtMs, true // the machine does not look before that
	}
	return c.machine.WakeMs()
}
