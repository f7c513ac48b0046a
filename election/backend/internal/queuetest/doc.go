// Package queuetest tests queue.Store implementations on real stores, in addition to
// package electiontest.
//
// A store provides ways to reach it past its backend. Every store then gets the same tests
// with the same faults: entries and leases that an operator removes, answers that are lost,
// links that are cut.
package queuetest
