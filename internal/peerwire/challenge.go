package peerwire

import "github.com/conclave-project/conclave/internal/quorum"

// Verdict is what becomes of a connection to an election port. Of two servers
// that dial each other, the connection of the larger number survives.
type Verdict uint8

// The verdicts.
const (
	// Keep the connection; it replaces an older one with the same peer.
	Keep Verdict = iota
	// CloseAndDial ends it, and an older one with the same peer: this server
	// has the larger number and dials the peer itself.
	CloseAndDial
	// CloseAndWait ends it after the initial message is written: the peer
	// dials back. It is no failure.
	CloseAndWait
	// SameNumber ends it: two servers have one number, and the operator has to
	// learn of it.
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

// Connected returns the verdict on a connection that this server opened, once
// its initial message is written.
func Connected(own, peer quorum.ID) Verdict {
	switch {
	case peer == own:
		return SameNumber
	case peer > own:
		return CloseAndWait
	}
	return Keep
}
