// Package queuetest is what every queue.Store on a real store is tested with,
// beside the suite of elections.
//
// In go ways to reach the store beside a backend, out come the same tests with
// the same faults for each: entries and leases that an operator takes away,
// answers that are lost, links that are cut.
package queuetest
