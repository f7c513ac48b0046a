// Package peerwire holds the bytes between servers, on both of a server's
// ports for its peers, in both directions.
//
// On the election port go an initial message (initial.go), which of two crossing
// connections survives (challenge.go), and frames with notifications
// (notification.go). On the quorum port go packets (packet.go), one after the
// other without a frame; before both may go proofs of who a server is (proof.go); what a packet carries is a message of package zab, in
// the forms of message.go. In go byte slices, out come values, and the other
// way round. What always holds:
//
//	peerwire-P1  Nothing here panics or takes memory beyond a small multiple of
//	             its input.
//	peerwire-P2  Every length is compared with its limit before anybody waits
//	             for that many bytes.
//	peerwire-P3  The bytes of a decoded packet alias the input. A caller that
//	             keeps a value longer copies it. Notifications and addresses are
//	             copies.
//	peerwire-P4  What is written is what Apache ZooKeeper 3.5 to 3.9 reads: null
//	             where it expects null, an empty buffer where it would fail on
//	             null.
//
// The package reads no sockets and decides nothing.
package peerwire
