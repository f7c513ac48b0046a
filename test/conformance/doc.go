// Command conformance proves the election backends against real stores, and
// writes docs/backends.md from what it has found.
//
//	go run ./test/conformance                    every backend on every store
//	go run ./test/conformance -only etcd,redis   these backends
//	go run ./test/conformance -quick             without those whose store takes
//	                                             more than two minutes to build
//	go run ./test/conformance lock-experiment    (scenario-E01) five processes, pauses, and
//	                                             which updates are lost
//
// In go the suites of the backends (build tag conformance), which start their
// stores by package stores; out come the reports of package electiontest, kept
// in docs/backends.json, and the page made of them.
//
// A store that cannot be had fails the run, unless it is left out by name with
// -without. Exit codes: 0 all passed, 1 something failed or was not proved, 2
// wrong arguments.
package main
