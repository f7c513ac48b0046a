// Package claims is what candidates do with the one record of their election: the
// rules of package election/record (record-R1 to record-R8, see there) as machines.
//
// A Memory is what one process has seen of a record, and what it has written there.
// An Op is one call (Candidate, Renewal, Release, Change) that reads and writes it:
// Begin and Answer return what the call wants next of the store, and the shell
// brings the answer. No Op starts a goroutine, reads a clock or asks a store;
// election/record runs them on stores, and the model checker in every order.
//
// Ops of one Memory share it: they are stepped one at a time. Instants do not go back.
package claims
