// Package interop tests Conclave against software by others.
//
// Its directories contain suites of unmodified clients: java (Apache's client and Curator),
// python (kazoo), gozk (go-zookeeper) and c. The command run starts a server, runs them all
// and counts. The Go tests here, under the build tag interop, hand data directories from
// one server to another: Conclave serves what Apache wrote, and the other way round, with
// every znode, stat, ACL and session as it was. Apache's client also authenticates by SASL,
// with a real KDC.
//
// The directory upstream runs tests that ZooKeeper and Curator publish beside their
// libraries, unmodified. A property names the class by which these tests start servers;
// ours starts a process of Conclave.
//
// The variable INTEROP_KIND names the server that is tested with Apache's: "conclave", the
// default, or "apache-VERSION".
package interop
