// Package peernet manages the connections between servers: Votes those of the
// election port, Links those of the quorum port.
//
// Callers send messages to a server or to a link by its number, and receive
// messages and reports that a link is up or down. Package peerwire encodes the
// messages; packages fle and zab give them their meaning. What always holds:
//
//	peernet-N1  When two servers dial each other on the election port, one
//	            connection stays, that of the larger number. A new connection
//	            replaces an old one.
//	peernet-N2  For each server at most one message waits to be sent, the
//	            newest. A new connection begins with the last message sent,
//	            because that may have been lost with the old connection.
//	peernet-N3  What is sent on a link, including snapshots, arrives in order
//	            and without gaps, or not at all.
//	peernet-N4  Up comes before, and Down after, all other calls for a link,
//	            each once. A connection that never sent a valid message is not
//	            reported.
//	peernet-N5  Nothing that a peer does or fails to do blocks a caller of
//	            Send, Flush or Close, delays another peer, or takes unlimited
//	            memory.
//	peernet-N6  When Close or Shutdown returns, no goroutine and no socket is
//	            left, and no callback will come.
//
// The package decides no election and no order. It checks no certificates: for TLS
// the Listener and the Dial function provide connections that do. Proofs are how
// servers prove their identity by SASL.
package peernet
