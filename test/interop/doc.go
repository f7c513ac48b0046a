// Package interop proves Conclave against what others wrote.
//
// Its folders hold suites of unmodified clients: java (Apache's client and
// Curator), python (kazoo), gozk (go-zookeeper) and c. The command run starts a
// server, runs them all and counts. The Go tests here, under the build tag
// interop, hand data directories from one server to another: what Apache wrote
// Conclave serves, and the other way round, with every znode, stat, ACL and
// session as it was. And Apache's client proves who it is by SASL, with a real KDC.
//
// The folder upstream has other people's tests run: those that ZooKeeper and Curator
// publish beside their libraries, unmodified. A property names the class by which they start servers;
// ours starts a process of Conclave.
//
// The variable INTEROP_KIND names the server that meets Apache: "conclave", if
// it is not set, or "apache-VERSION".
package interop
