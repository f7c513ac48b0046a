// Package peernet holds the connections between servers: Votes those of the
// election port, Links those of the quorum port.
//
// In go messages as values, to a server or a link by its number; out come
// messages, and the news that a link is there or gone. What the bytes are is the
// business of package peerwire, what the messages mean that of fle and zab. What
// always holds:
//
//	peernet-N1  Of two servers that dial each other on the election port one
//	            connection stays, that of the larger number, and a new one
//	            replaces an old one.
//	peernet-N2  One message waits for each server to be sent, the newest; a new
//	            connection begins with the last one sent, for that may have been
//	            lost with the old one.
//	peernet-N3  What is sent on a link arrives in that order or not at all,
//	            snapshots included; nothing stands after a gap.
//	peernet-N4  Up comes before, Down after everything else of a link, each
//	            once. A connection that never said anything sensible comes to
//	            nobody's notice.
//	peernet-N5  Nothing that a peer does or leaves undone holds up a caller of
//	            Send, Flush or Close, another peer, or memory without limit.
//	peernet-N6  When Close or Shutdown returns no goroutine and no socket is
//	            left, and no callback will come.
//
// The package decides no election and no order. It checks no certificates: for
// TLS the Listener and the Dial function bring connections that do. Proofs are how
// servers prove by SASL who they are.
package peernet
