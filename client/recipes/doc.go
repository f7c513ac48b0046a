// Package recipes holds what is usually built on a client.Client: a lock, a
// lock for readers and writers, a queue, barriers and a counter.
//
// What goes in is a client and a path; what comes out is the recipe's outcome,
// or an error of the client. What always holds:
//
//	recipes-R1  Who waits in a line watches the one before it, and nobody else:
//	            one release wakes one waiter (no herd).
//	recipes-R2  A contender whose create was answered by a lost connection finds
//	            its znode again; one that gives up leaves nothing behind that
//	            blocks others for longer than its session lives.
//	recipes-R3  A waiter neither hangs over a lost connection, nor beyond its
//	            context or the end of its session.
//	recipes-R4  Lost of a lock is closed before anybody else can have it for
//	            want of its holder's session: that session is proven by a quorum
//	            again and again, and its client closes it only after that.
//
// The names of the znodes are Curator's (locks) and kazoo's (counter), so that
// programs of all three can share a path.
//
// A lock is a promise of the servers, not of this process: a program that was
// stopped may still act on a lock that somebody else has by now, before it sees
// that Lost is closed. Held.Token only grows from holder to holder: check it at
// the resource. For leadership, which is the same with health checks, hand-over
// and other stores, use package election.
package recipes
