// Package chaos lets clients work on an ensemble of real processes while everything around
// it breaks: servers are killed, paused, restarted and wiped, links between them
// partitioned in one direction or both, slowed and reset, disks are full, slow and broken,
// and servers are removed from the configuration and added again in other roles. Then it
// checks whether a promise was broken.
//
// All of it is in one test under the build tag chaos, with two storms one after the other:
// "links" takes two thirds of the time, behind proxies that can be partitioned; "reconfigs"
// takes the rest, without proxies, because the lines of a configuration are the same for
// all servers. Run it with "make chaos". CHAOS_MINUTES=30 sets the time (1 is a smoke
// test), CHAOS_SERVERS=5 the number of participants, besides one observer, CHAOS_SEED
// repeats the same faults in the same order, and CHAOS_KIND is "conclave" or
// "apache-VERSION". Full disks are small file systems in memory, mounted in a namespace of
// the test.
//
// What is checked, in addition to the promises of package workload:
//
//	chaos-X1  No zxid stands for two transactions in the logs of the servers,
//	          and each acknowledged write is what the logs have under its zxid.
//	chaos-X2  The answers on keys that several clients contend for, with reads
//	          after a sync, have one order that explains them all.
//	chaos-X3  When all is healed, every server serves and clients write, within
//	          a bound.
//	chaos-X4  No server ends by itself, unless its disk has failed a sync, nor
//	          does its log report a broken invariant.
//	chaos-X5  When all is healed, the change of the configuration that was requested
//	          last is in force, on every server that it names. These serve,
//	          and so do the servers that it removes. An acknowledged configuration never
//	          gives way to an older one.
//
// Faults that no protocol of this kind survives are left out: a disk is lost only while all
// other servers are well, in an ensemble with as many participants as at first, and no
// other fault begins until the server is back.
package chaos
