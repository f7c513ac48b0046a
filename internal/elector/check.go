package elector

import "github.com/conclave-project/conclave/internal/invariant"

// check compares what is told to the shell with the rules. It uses only what was told before,
// and knows nothing of the phases.
func (m *Machine) check(e Effect) {
	s := &m.said
	switch e := e.(type) {
	case Acquire:
		invariant.Check(!s.claimed, "elector: a new attempt before the last one was released (elector-L6)")
		invariant.Check(!m.unhealthy, "elector: an unhealthy candidate campaigns (elector-L8)")
		s.claimed = true
	case Elect:
		invariant.Check(s.claimed && e.Attempt == m.attempt, "elector: elected by the grant of another attempt (elector-L4)")
		invariant.Check(!s.elected && !s.running, "elector: elected twice (elector-L2)")
		s.elected, s.running, s.ending, s.ready = true, true, false, false
	case End:
		invariant.Check(s.elected && !s.ending, "elector: End without an Elect of its own (elector-L2)")
		invariant.Check(e.Reason != Transferred || s.ready, "elector: gives way to a nominee that is not ready (elector-L7)")
		s.ending = true
	case Lost:
		invariant.Check(s.elected && s.ending, "elector: Lost without an End of its own (elector-L2)")
		s.elected = false
	case Renew:
		invariant.Check(s.elected, "elector: renews what it does not lead by (elector-L2)")
		invariant.Check(!m.stuckSaid, "elector: renews for a function that is stuck (elector-L9)")
	case Release:
		if e.Attempt == m.attempt {
			invariant.Check(!s.running, "elector: releases what its function still works under (elector-L3)")
			s.claimed = false
		}
	}
}
