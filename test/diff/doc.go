//go:build linux

// Command diff runs the same random sequence of operations against two servers and compares
// their answers: Apache ZooKeeper and Conclave, or any two of the kinds in test/servers.
//
// From a seed, the generator writes a script: connections, sessions, requests with good and
// odd arguments, watches, reconnects, expiries, garbage, kills. The runner plays the script
// against a fresh server and records, step by step, every reply, every event and every
// closed connection as text. The result is the first step at which two of these transcripts
// differ, and a smaller script that still makes them differ.
//
// What always holds:
//
//	diff-D1  A script is fixed before the first byte is sent: nothing in it
//	         depends on what a server answers, so both servers get the same
//	         bytes, except session ids, passwords and the zxid last seen.
//	diff-D2  Any subset of a script is a script: steps on connections or
//	         sessions that do not exist are recorded as skipped. Shrinking
//	         relies on it.
//	diff-D3  Only what a server is free to choose is normalised: times, session
//	         ids, the order of children, of ephemerals and of identities, and
//	         the order of the events of one closed session. Zxids are compared
//	         as they are, since both servers start empty.
//	diff-D4  What the decoder of this tree does not see is compared as bytes: a
//	         body that would not be encoded the same way again is printed in
//	         hex.
//
// After that, a script is played on each kind of server of an ensemble, and one on all
// servers, between which its sessions move, with and without local sessions.
//
// The client here is separate, so a bug in package client cannot hide one in the server. It
// runs on Linux, like test/servers.
//
// Before the random scripts come three things that they cannot contain: the table of known
// differences; the reaping of containers and TTL znodes, whose time a server chooses; and
// the matrix of permissions: each operation, requested by every caller that can prove a
// name in some way, on znodes whose ACLs have each scheme. A client proves its name by a
// password, by SASL or by a TLS certificate. The servers for SASL and TLS are set up for
// both; Apache's use Netty.
//
// Two servers may differ where docs/differences.md says so. The generator avoids these
// places; each has a script of its own in known.go, with the required answer of either
// server.
package main
