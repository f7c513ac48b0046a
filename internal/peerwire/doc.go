// Package peerwire encodes and decodes what servers send each other, on the
// election port and on the quorum port, in both directions.
//
// A connection to the election port carries an initial message (initial.go), then frames with notifications
// (notification.go); challenge.go decides which of two crossing connections survives. A connection to the
// quorum port carries packets (packet.go), one after the other without a frame. Each packet is a message of
// package zab, encoded by message.go. On both ports, proofs of a server's identity (proof.go) may come first.
// What always holds:
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
