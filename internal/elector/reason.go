package elector

// Reason says why a leadership or a run ended.
type Reason uint8

// The reasons.
const (
	// None: nothing has ended.
	None Reason = iota
	// Returned: the function returned by itself.
	Returned
	// Resigned: somebody asked this candidate to give up.
	Resigned
	// Stopped: the run was asked to end.
	Stopped
	// Expired: the grant could not be proved again in time.
	Expired
	// Taken: the store said that the grant is gone.
	Taken
	// Refused: the backend said that no attempt can succeed.
	Refused
	// TokenStale: the store gave a token that had not grown.
	TokenStale
	// Transferred: another candidate was chosen to lead, and is ready.
	Transferred
	// Unhealthy: the health check has failed too often in a row.
	Unhealthy
)

var reasonNames = [...]string{
	"none", "returned", "resigned", "stopped", "expired", "taken", "refused", "token-stale", "transferred", "unhealthy",
}

// String returns the reason as text.
func (r Reason) String() string {
	if int(r) >= len(reasonNames) {
		return "unknown"
	}
	return reasonNames[r]
}
