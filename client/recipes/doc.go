// Package recipes contains what is usually built on a client.Client: a lock, a lock for readers
// and writers, a queue, barriers and a counter.
//
// Each recipe takes a client and a path, and returns the client's errors. What always holds:
//
//	recipes-R1  A waiter in a line watches only the one before it: one release wakes one waiter
//	            (no herd).
//	recipes-R2  A contender whose connection was lost before its create was answered finds its
//	            znode again. A contender that gives up leaves nothing behind that blocks others
//	            for longer than its session lives.
//	recipes-R3  A waiter does not hang because of a lost connection, nor beyond the end of its
//	            context or of its session.
//	recipes-R4  If the holder's session ends, the lock's channel Lost is closed before anybody
//	            else can have the lock: a quorum proves that session again and again, and its
//	            client closes it only after Lost.
//
// The names of the znodes are Curator's (locks) and kazoo's (counter), so that programs of all
// three can share a path.
//
// A lock is a promise of the servers, not of this process: a program that was paused may still act
// on a lock that somebody else has by then, before it sees that Lost is closed. Held.Token grows
// from holder to holder: check it at the resource. For leadership, which adds health checks,
// hand-over and other stores, use package election.
package recipes
