// Package tap counts the requests that clients send to a store.
//
// Given the address of a store and its protocol, it provides an address for
// clients and a count. What always holds:
//
//	tap-B1  What arrives leaves as it came, in order; a frame is counted before it
//	        leaves.
//	tap-B2  A request is what the protocol calls one: a command of Redis, a request
//	        of ZooKeeper, an HTTP request, a statement that PostgreSQL executes, a
//	        message that is published. Heartbeats of a session or a connection are
//	        counted by themselves.
//	tap-B3  A connection whose bytes are not the protocol ends, so that no count is
//	        wrong in silence.
package tap
