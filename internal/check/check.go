// Package check decides whether the observed behaviour of an ensemble is what ZooKeeper
// promises.
//
// A caller reports facts, one at a time, as they are observed: a server has logged, applied
// or shown a transaction, a client has sent a request or got a reply. A checker returns nil
// or a Violation, which names the property and says what broke it. Each property has its
// file:
//
//	zab        Order: one sequence of transactions, of which every serving server shows a beginning
//	digest     Digests: servers with the same last zxid have the same tree
//	model      Model: each transaction is possible at its place; what the tree was at every zxid
//	ephemeral  within Model: an ephemeral goes exactly once, at the latest with its session
//	read       within Model: a read shows the tree of the zxid it claims
//	write      within Model: the reply to a write is what the write did
//	whole      within Model: a server's whole tree is that of the model, ACLs too
//	kept       Kept: what was acknowledged is there in the end
//	asked      Asked: transactions are what clients asked for, and nothing else
//	session    Session: replies in order, never back in time, also on another server
//	recent     Recent: writes take place between request and reply, a read after a sync is as new as the sync
//	right      within Model: clients without the right are refused, and no others
//	quota      within Model: what a quota counts, and what it refuses
//	reaped     within Model: containers and TTL znodes go when they may
//	watch      Watches: each event once, and before the reply that shows the change
//	persist    within Watches: a watch that stays misses nothing
//	sequence   Sequences: no name is given twice
//	expiry     Expiry: no session is ended before its time, nor long after it
//	local      Local: a session of one server is attached there alone, and ends in time
//	readonly   ReadOnly: a partitioned server writes nothing, and shows what there was
//	linear     Linearizable: the operations on a key have one order that explains them all
//
// All except the last take constant or logarithmic time for each fact, so they can run
// together with a simulation or a test of real processes. A checker that has returned a
// Violation must not be used again.
//
// The package knows no bytes, sockets or clocks; times are milliseconds that the caller
// supplies. Only one goroutine at a time may use a checker.
package check

import "fmt"

// Violation is a broken promise.
type Violation struct {
	Property string // a name from the list above
	Detail   string // who, where, what was expected
}

// Error implements error.
func (v *Violation) Error() string { return v.Property + ": " + v.Detail }

// broken returns a Violation.
func broken(property, format string, args ...any) error {
	return &Violation{Property: property, Detail: fmt.Sprintf(format, args...)}
}
