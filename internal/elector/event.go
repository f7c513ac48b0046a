package elector

import "fmt"

// Event is something that happened. The shell sends one at a time.
type Event interface{ event() }

type (
	// Start begins the first campaign.
	Start struct{}

	// Acquired is the store's answer that this candidate leads.
	Acquired struct {
		Attempt uint64
		Token   uint64
		// SentMs is when the request that proves the grant was sent.
		SentMs int64
		// LeaseMs is for how long, from then on, the store keeps all others out.
		LeaseMs int64
	}

	// AcquireFailed reports that an attempt ended without a grant, as far as the backend knows.
	// Final failures are not repeated.
	AcquireFailed struct {
		Attempt uint64
		Final   bool
	}

	// Renewed is the store's answer that the grant still holds. Rival reports that a waiter
	// outranks this candidate.
	Renewed struct {
		Attempt uint64
		Renewal uint64
		SentMs  int64
		LeaseMs int64
		Rival   bool
	}

	// Hurry asks for a renewal at once, because it would bring news. Several requests in quick
	// succession share one renewal.
	Hurry struct{ Attempt uint64 }

	// RenewFailed reports that a renewal failed. With Lost the store has refused it; without
	// Lost the outcome is unknown.
	RenewFailed struct {
		Attempt uint64
		Renewal uint64
		Lost    bool
	}

	// LossSeen reports that the backend learned, without asking, that the grant is gone.
	LossSeen struct{ Attempt uint64 }

	// EndSeen reports that the function was told to end because its time was over.
	EndSeen struct{ Attempt uint64 }

	// FunctionEnded reports that the function of this attempt returned. With Final its result
	// ends the run, whatever the configuration says.
	FunctionEnded struct {
		Attempt uint64
		Final   bool
	}

	// Released reports that the claim of this attempt was released, or that the backend gave up
	// trying.
	Released struct{ Attempt uint64 }

	// Resign asks to end the leadership of this attempt.
	Resign struct{ Attempt uint64 }

	// Transfer asks to hand the present leadership over to the candidate that the shell has
	// chosen.
	Transfer struct{}

	// Nominated is the answer to Nominate: the chosen candidate is ready, or the nomination has
	// led to nothing.
	Nominated struct {
		Attempt    uint64
		Nomination uint64
		Ready      bool
	}

	// Health is the outcome of a health check.
	Health struct{ Passed bool }

	// Stop asks to end everything in an orderly way.
	Stop struct{}

	// Tick says that time has passed.
	Tick struct{}
)

func (Start) event()         {}
func (Acquired) event()      {}
func (AcquireFailed) event() {}
func (Renewed) event()       {}
func (Hurry) event()         {}
func (RenewFailed) event()   {}
func (LossSeen) event()      {}
func (EndSeen) event()       {}
func (FunctionEnded) event() {}
func (Released) event()      {}
func (Resign) event()        {}
func (Transfer) event()      {}
func (Nominated) event()     {}
func (Health) event()        {}
func (Stop) event()          {}
func (Tick) event()          {}

// Effect is something to carry out. Effects of one step are carried out in
// their order.
type Effect interface {
	effect()
	String() string
}

type (
	// Acquire makes one attempt to get the election from the backend.
	Acquire struct{ Attempt uint64 }

	// Abandon cancels the attempt. Its answer is still awaited.
	Abandon struct{ Attempt uint64 }

	// Elect starts the function. From now on this candidate leads.
	Elect struct {
		Attempt    uint64
		Token      uint64
		DeadlineMs int64
		EndMs      int64
	}

	// Renew asks the backend to prove the grant again.
	Renew struct {
		Attempt uint64
		Renewal uint64
	}

	// CancelRenew stops waiting for a renewal. A late answer is still used.
	CancelRenew struct {
		Attempt uint64
		Renewal uint64
	}

	// Extend moves the deadline of the leadership.
	Extend struct {
		Attempt    uint64
		DeadlineMs int64
		EndMs      int64
	}

	// End cancels the context of the function, once per Elect.
	End struct {
		Attempt uint64
		Reason  Reason
	}

	// Lost reports, once per Elect, that this candidate no longer leads.
	Lost struct {
		Attempt uint64
		Reason  Reason
	}

	// Stuck reports, at most once per Elect, that the function still runs although its time is
	// over. A leadership that still holds is no longer renewed.
	Stuck struct{ Attempt uint64 }

	// Nominate asks the backend to choose who leads next and to let that candidate warm up:
	// with Rival the rival, otherwise the candidate that was asked for. It ends an earlier
	// nomination.
	Nominate struct {
		Attempt    uint64
		Nomination uint64
		Rival      bool
	}

	// Release releases the claim of the attempt, granted or not.
	Release struct{ Attempt uint64 }

	// Finish ends the run.
	Finish struct{ Reason Reason }
)

func (Acquire) effect()     {}
func (Abandon) effect()     {}
func (Elect) effect()       {}
func (Renew) effect()       {}
func (CancelRenew) effect() {}
func (Extend) effect()      {}
func (End) effect()         {}
func (Lost) effect()        {}
func (Stuck) effect()       {}
func (Nominate) effect()    {}
func (Release) effect()     {}
func (Finish) effect()      {}

func (e Acquire) String() string { return fmt.Sprintf("acquire attempt=%d", e.Attempt) }
func (e Abandon) String() string { return fmt.Sprintf("abandon attempt=%d", e.Attempt) }
func (e Elect) String() string {
	return fmt.Sprintf("ELECT attempt=%d token=%d deadline=%d end=%d",
		e.Attempt, e.Token, e.DeadlineMs, e.EndMs)
}
func (e Renew) String() string {
	return fmt.Sprintf("renew attempt=%d renewal=%d", e.Attempt, e.Renewal)
}
func (e CancelRenew) String() string {
	return fmt.Sprintf("cancel-renew attempt=%d renewal=%d", e.Attempt, e.Renewal)
}
func (e Extend) String() string {
	return fmt.Sprintf("extend attempt=%d deadline=%d end=%d", e.Attempt, e.DeadlineMs, e.EndMs)
}
func (e End) String() string   { return fmt.Sprintf("end attempt=%d reason=%v", e.Attempt, e.Reason) }
func (e Lost) String() string  { return fmt.Sprintf("LOST attempt=%d reason=%v", e.Attempt, e.Reason) }
func (e Stuck) String() string { return fmt.Sprintf("STUCK attempt=%d", e.Attempt) }
func (e Nominate) String() string {
	return fmt.Sprintf("nominate attempt=%d nomination=%d rival=%t", e.Attempt, e.Nomination, e.Rival)
}
func (e Release) String() string { return fmt.Sprintf("release attempt=%d", e.Attempt) }
func (e Finish) String() string  { return fmt.Sprintf("finish reason=%v", e.Reason) }
