// Package claims implements what candidates do with the record of their election:
// the rules of package election/record (record-R1 to record-R8, see there) as state
// machines.
//
// A Memory is what one process has seen of a record and written to it. An Op is one
// call (Candidate, Renewal, Release, Change) that reads and writes the record:
// Begin and Answer return what the call wants from the store next, and the shell
// delivers the answer. No Op starts a goroutine, reads a clock or talks to a store.
// Package election/record runs Ops on stores, and the model checker runs them in
// every order.
//
// The Ops of a Memory share it, so they are stepped one at a time. Instants never go back.
package claims
