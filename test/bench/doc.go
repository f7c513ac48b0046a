//go:build linux

// Command bench runs the same load on several servers, on this machine, one after the
// other, and prints what each needs for it:
//
//	go run ./test/bench compare
//	go run ./test/bench compare -size 3
//	go run ./test/bench failover
//	go run ./test/bench floor
//	go run ./test/bench floor -size 3
//	go run ./test/bench elections
//	go run ./test/bench etcd
//	go run ./test/bench etcd -size 3
//	go run ./test/bench check
//	go run ./test/bench profile
//	go run ./test/bench scale
//	go run ./test/bench settings
//
// compare measures Apache ZooKeeper and Conclave. Its input is a list of parts to measure,
// its output a table: throughput, latency, the server's CPU time per operation, resident
// memory with a million znodes, and the time until they are served again after a kill. CPU
// time is what the kernel has counted for the server's process, all threads, user and
// system, in the measured interval. Servers take turns and each figure is the median of its
// repetitions, so other activity of the machine affects both alike.
//
// With -size 3 the load is on an ensemble: connections go to all servers in turn, and CPU
// time is the sum of theirs. failover measures how long a client that writes without pause
// waits when the leader is killed, or stopped.
//
// floor runs the same loads on Conclave and on the smallest possible server (package
// floor), and prints Conclave's costs in multiples of it. With -size 3 all connections are
// to the leader: the floor's peers write, sync and acknowledge, and that is all they do,
// while Conclave's apply each write, too.
//
// elections measures what candidates of elections cost, on stores that run here, with
// Conclave's SDK and with the store's own library: requests, CPU time, memory, and the time
// from the death of a leader to its successor.
//
// etcd runs the same work on etcd and on Conclave, with the Go clients of both, in
// processes that are not counted: reads, writes, keys with leases, watches.
//
// check compares counts, not times, of this tree and of a commit: see package check.
//
// profile runs a server in a process of its own, puts loads on it, and prints where its CPU
// time goes, by the steps of a request; with -size 3, for a leader and a follower.
//
// scale measures how Conclave copes with size, as curves: package scale.
//
// settings switches a load between two servers, several times a second. One of them has
// additional lines in zoo.cfg, and the command prints what these cost; the default is the
// audit log and the port for metrics. With -other BINARY the second server is a different
// binary, so two versions are compared.
//
// A server starts on an empty directory of the same disk and gets the same warm-up; the
// Java process may use a heap of 4 GiB and logs only warnings. The load generator shares
// the machine; the table includes its cost, too.
package main
