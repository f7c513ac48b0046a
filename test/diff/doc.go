//go:build linux

// Command diff runs the same random sequence of operations against two servers
// and compares what comes back: Apache ZooKeeper and Conclave, or any two of
// the kinds in test/servers.
//
// In goes a seed. From it the generator writes a script: connections, sessions,
// requests with good and odd arguments, watches, reconnects, expiries, garbage.
// The runner plays the script against a fresh server and writes down, step by
// step, every reply, every event and every closed connection as text. Out comes
// the first step at which two of these transcripts differ, and a smaller script
// that still makes them differ.
//
// What always holds:
//
//	diff-D1  A script is fixed before the first byte is sent: nothing in it
//	         depends on what a server answers, so both servers get the same
//	         bytes, but for session ids, passwords and the zxid last seen.
//	diff-D2  Any subset of a script is a script: steps on connections or
//	         sessions that do not exist are written down as skipped. Shrinking
//	         relies on it.
//	diff-D3  Only what a server is free to choose is normalised: times, session
//	         ids, the order of children, of ephemerals and of identities, and
//	         the order of the events of one closed session. Zxids are compared
//	         as they are, since both servers start empty.
//	diff-D4  What the decoder of this tree does not see is compared as bytes: a
//	         body that would not be encoded the same way again is printed in
//	         hex.
//
// Then a script is played on each kind of server of an ensemble, with and without local
// sessions.
//
// The client here is its own; a bug in package client cannot hide one in the
// server. It runs on Linux, as test/servers does.
//
// What random scripts cannot hold comes first: the table of known differences,
// the reaping of containers and TTL znodes, whose moment a server chooses, and the
// matrix of permissions: each operation, asked by everybody who can prove a name in
// some way, of znodes whose lists have each scheme. A client proves it by a
// password, by SASL or by a certificate of TLS; the servers of the last two are
// set up for both, Apache's with Netty.
//
// Two servers may differ where docs/differences.md says so. The generator does
// not walk into those places; each has a script of its own in known.go, with
// what either server must answer.
package main
