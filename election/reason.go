package election

import "github.com/conclave-project/conclave/internal/elector"

// Reason says why a leadership ended. The zero Reason means none.
type Reason uint8

// The reasons why a leadership ends.
const (
	// ReasonReturned: the function returned by itself.
	ReasonReturned = Reason(elector.Returned)
	// ReasonResigned: Resign was called, or an operator asked for it.
	ReasonResigned = Reason(elector.Resigned)
	// ReasonStopped: the context given to Run ended.
	ReasonStopped = Reason(elector.Stopped)
	// ReasonExpired: the store could not be reached in time.
	ReasonExpired = Reason(elector.Expired)
	// ReasonTaken: the store said that the grant is gone.
	ReasonTaken = Reason(elector.Taken)
	// ReasonTokenStale: the store returned a token that had not grown.
	ReasonTokenStale = Reason(elector.TokenStale)
	// ReasonTransferred: another candidate was chosen to lead.
	ReasonTransferred = Reason(elector.Transferred)
	// ReasonUnhealthy: the health check failed.
	ReasonUnhealthy = Reason(elector.Unhealthy)
)

// String returns the reason as text, as the history of an election shows it.
func (r Reason) String() string { return elector.Reason(r).String() }
