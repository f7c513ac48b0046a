package election

import (
	"errors"
	"time"

	"github.com/conclave-project/conclave/internal/elector"
)

// State says what a candidate is doing.
type State uint8

// The states of a candidate.
const (
	// StateStopped: Run has not been called, or has returned.
	StateStopped = State(elector.StateStopped)
	// StateWaiting: it campaigns; it asks for the election now or after a pause.
	StateWaiting = State(elector.StateWaiting)
	// StateUnhealthy: it does not campaign, because its health check fails or has
	// not passed yet.
	StateUnhealthy = State(elector.StateUnhealthy)
	// StateLeading: it leads.
	StateLeading = State(elector.StateLeading)
	// StateEnding: its function was told to end and has not ended yet; nobody else can lead yet.
	StateEnding = State(elector.StateEnding)
	// StateLost: its leadership is over, and its function has not ended yet. Others
	// may lead.
	StateLost = State(elector.StateLost)
	// StateStuck: its function has not ended in time; see EventStuck.
	StateStuck = State(elector.StateStuck)
)

// String returns the state as text.
func (s State) String() string { return elector.State(s).String() }

// Status describes a candidate at one moment.
type Status struct {
	State State
	// Since is when the state was entered, by this machine's wall clock; zero if Run was never
	// called.
	Since time.Time
	// Leadership is the current leadership until it is released, the zero Leadership if there is
	// none.
	Leadership Leadership
	// Reason is why the leadership ends or has ended, zero while it lasts. It stays set until the
	// next campaign begins.
	Reason Reason
	// Err is the last failure, of the store or of a health check, since Run was called or a
	// leadership began; nil for none.
	Err error
}

// Status returns the status of this candidate. It does no I/O and waits for nothing. It reads the
// clock, so a leadership whose time is over is never reported as lasting, not even by the first
// call after the process was frozen.
func (e *Elector) Status() Status {
	last := e.status.Load()
	if last == nil {
		return Status{}
	}
	s := *last
	if s.State == StateLeading {
		if err := s.Leadership.Err(); err != nil {
			s.State, s.Reason = StateEnding, reasonOf(err, s.Reason)
		}
	}
	if s.State == StateEnding && s.Leadership.Remaining() == 0 {
		s.State = StateLost
	}
	return s
}

// reasonOf returns the reason in the cause of an ended context, or other if the cause has
// none.
func reasonOf(cause error, other Reason) Reason {
	if lost := (*LostError)(nil); errors.As(cause, &lost) {
		return lost.Reason
	}
	return other
}

// Leadership returns the current leadership, and whether there is one: the function runs and was
// not told to end. See Status for the rest.
func (e *Elector) Leadership() (Leadership, bool) {
	s := e.Status()
	if s.State != StateLeading {
		return Leadership{}, false
	}
	return s.Leadership, true
}

// IsLeader reports whether this candidate leads now. Another may lead a moment later: do what
// only one process may do in the function of Run, with its context and the leadership's token.
func (e *Elector) IsLeader() bool {
	_, leads := e.Leadership()
	return leads
}

// publish updates the status that other goroutines see. The loop calls it.
func (r *run) publish() {
	s := &Status{State: State(r.machine.State()), Since: time.Now(), Reason: r.why, Err: r.lastErr}
	if r.term != nil {
		s.Leadership = Leadership{r.term}
	}
	if old := r.elector.status.Load(); old != nil && old.State == s.State && old.Leadership == s.Leadership {
		s.Since = old.Since
	}
	r.elector.status.Store(s)
}
