package peerwire

import "github.com/conclave-project/conclave/internal/quorum"

// Verdict says what to do with a connection to an election port. When two
// servers dial each other, the connection that the server with the larger
// number opened survives.
type Verdict uint8

// The verdicts.
const (
	// Keep the connection; it replaces an older one with the same peer.
	Keep Verdict = iota
	// CloseAndDial ends it, and an older one with the same peer: this server
	// has the larger number and dials the peer itself.
	CloseAndDial
	// CloseAndWait ends it after the initial message is written: the peer dials
	// back. This is not a failure.
	CloseAndWait
	// SameNumber ends it: two servers have the same number, and the operator
	// has to be told.
	SameNumber
)

// Accepted returns the verdict on a connection that the peer opened.
func Accepted(own, peer quorum.ID) Verdict {
	switch {
	case peer == own:
		return SameNumber
	case peer < own:
		return CloseAndDial
	}
	return Keep
}

// Connected returns the verdict on a connection that this server opened, after
// its initial message was written.
func Connected(own, peer quorum.ID) Verdict {
	switch {
	case peer == own:
		return SameNumber
	case peer > own:
		return CloseAndWait
	}
	return Keep
}
