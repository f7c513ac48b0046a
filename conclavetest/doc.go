// Package conclavetest starts an ensemble of servers in the process of a Go test, in
// milliseconds.
//
//	func TestWorkersSurviveTheirServer(t *testing.T) {
//		e := conclavetest.Start(t, conclavetest.Servers(3))
//		c := e.Client(t)
//		...
//		e.Kill(e.Leader())
//		...
//	}
//
// The servers are complete, listen on loopback ports, and have their disks in memory. Any ZooKeeper
// client can talk to them. They can be killed, restarted, and partitioned from each other; sessions
// can be expired; and the servers' clock can be moved, so no test has to wait for an hour to pass.
// Everything ends with the test. If the test has failed, the ensemble prints who led when, and the
// last lines of the servers' logs. The test also fails if two servers that serve clients have
// different trees.
//
// A method that cannot do what it promises fails the test at once, so call it from the test's
// goroutine, as with t.Fatal. Only Servers, Addr, Clock and Now may be called from other
// goroutines.
package conclavetest
