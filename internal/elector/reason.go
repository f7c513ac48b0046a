package elector

// Reason says why a leadership or a run ended.
type Reason uint8

// The reasons.
const (
	// None means that nothing has ended.
	None Reason = iota
	// Returned means that the function returned by itself.
	Returned
	// Resigned means that somebody asked this candidate to step down.
	Resigned
	// Stopped means that the run was asked to end.
	Stopped
	// Expired means that the grant could not be proved again in time.
	Expired
	// Taken means that the store said that the grant is gone.
	Taken
	// Refused means that the backend said that no attempt can succeed.
	Refused
	// TokenStale means that the store gave a token that had not grown.
	TokenStale
	// Transferred means that another candidate was chosen to lead, and is ready.
	Transferred
	// Unhealthy means that the health check has failed too often in a row.
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
