// Package clientsession is the client's side of a ZooKeeper session as a
// machine: it decides when and where to connect, how to attach to the session
// again, when to ping, when a connection or the session must be given up, what
// becomes of every request, and which watches an event wakes.
//
// In go events (a request, a reply's header, a lost connection, the time), out
// come effects (dial, send, complete a call, notify a watch), in the order in
// which they must be carried out. It knows no bytes and no sockets, reads no
// clock and draws its randomness from a seed: package client is the shell
// around it. Paths are absolute: a chroot is the shell's business.
//
// What always holds:
//
//	clientsession-C1  Every call submitted is completed exactly once, with a
//	                  reply or with an error and its outcome: not applied,
//	                  applied, or unknown.
//	clientsession-C2  Calls are sent in the order of submission, and when a
//	                  connection is lost all calls submitted before end
//	                  together: none of them is sent later, after one whose fate
//	                  is unknown.
//	clientsession-C3  A call is said to be not applied only if it is a read, was
//	                  never handed to the socket, or was refused by the server.
//	                  A credential of which that is said is not shown later.
//	clientsession-C4  The session is given up when its timeout has passed since
//	                  the moment the last answered request was sent, and is
//	                  never attached again. The servers may have expired it
//	                  before: see clientsession-C7.
//	clientsession-C5  A watch that is registered is armed on the server the
//	                  client is attached to, or will be by setWatches before any
//	                  call is sent there.
//	clientsession-C6  Nothing depends on the order of a map, and nothing is
//	                  unbounded but what the user registers: watches and
//	                  credentials. The number of calls is bounded by the shell,
//	                  which sees it in Backlog.
//	clientsession-C7  ProvenMs is a lower bound: no server expires the session
//	                  before, as long as their leader's clock and this one run
//	                  at one rate and the timeout is at least two ticks. Only
//	                  what a quorum has decided moves it.
package clientsession
