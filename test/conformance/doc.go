// Command conformance tests the election backends against real stores, and writes
// docs/backends.md from the results.
//
//	go run ./test/conformance                    every backend on every store
//	go run ./test/conformance -only etcd,redis   these backends
//	go run ./test/conformance -quick             without those whose store takes
//	                                             more than two minutes to build
//	go run ./test/conformance lock-experiment    (scenario-E01) five processes, pauses, and
//	                                             which updates are lost
//
// It runs the suites of the backends (build tag conformance), which start their stores with
// package stores. The result is the reports of package electiontest, kept in
// docs/backends.json, and the page made from them.
//
// A store that is not available fails the run, unless it is left out by name with -without.
// Exit codes: 0 all passed, 1 something failed or was not proved, 2 wrong arguments.
package main
