// Package conclavetest gives a Go test an ensemble of servers in its own
// process, in milliseconds.
//
//	func TestWorkersSurviveTheirServer(t *testing.T) {
//		e := conclavetest.Start(t, conclavetest.Servers(3))
//		c := e.Client(t)
//		...
//		e.Kill(e.Leader())
//		...
//	}
//
// The servers are whole ones, on ports of loopback, with their disks in memory;
// any ZooKeeper client can talk to them. They can be killed, restarted, and
// partitioned from each other; sessions can be expired; and their clock can be
// moved, so that nothing waits for an hour to pass. Everything ends with the
// test. When that has failed, it prints who led when, and the last lines of the
// servers' logs; and it fails if two servers that serve have different trees.
//
// Methods that cannot do what they say fail the test at once, so they are called
// from its goroutine, as t.Fatal is. Only Servers, Addr, Clock and Now may be
// called from others.
package conclavetest
