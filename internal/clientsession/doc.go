// Package clientsession is the client's side of a ZooKeeper session as a state machine. It
// decides when and where to connect, how to attach to the session again, when to ping, when
// a connection or the session must be given up, what the outcome of every request is, and
// which watches an event wakes.
//
// The machine takes events (a request, the header of a reply, a lost connection, the time)
// and returns effects (dial, send, complete a call, notify a watch), in the order in which
// they must be carried out. It knows neither bytes nor sockets, reads no clock, and takes
// its randomness from a seed; package client is the shell around it. Paths are absolute:
// the shell handles a chroot.
//
// What always holds:
//
//	clientsession-C1  Every call submitted is completed exactly once, with a
//	                  reply or with an error and its outcome: not applied,
//	                  applied, or unknown.
//	clientsession-C2  Calls are sent in the order of submission. When a connection
//	                  is lost, all calls submitted before end together: none of
//	                  them is sent later, after one whose outcome is unknown.
//	clientsession-C3  A call is reported as not applied only if it is a read, was
//	                  never handed to the socket, or was refused by the server.
//	                  A credential reported so is not shown later.
//	clientsession-C4  The session is given up when its timeout has passed since
//	                  the moment the last answered request was sent, and is
//	                  never attached again. The servers may have expired it
//	                  before: see clientsession-C7.
//	clientsession-C5  A registered watch is armed on the server that the client is
//	                  attached to, or setWatches will arm it there before any
//	                  call is sent to that server.
//	clientsession-C6  Nothing depends on the order of a map, and nothing is
//	                  unbounded except what the user registers: watches and
//	                  credentials. The shell bounds the number of calls, which it
//	                  sees in Backlog.
//	clientsession-C7  ProvenMs is a lower bound: no server expires the session
//	                  before, as long as their leader's clock and this one run
//	                  at the same rate and the timeout is at least two ticks. Only
//	                  what a quorum has decided moves it.
package clientsession
