// Package chaos lets clients work on an ensemble of real processes while
// everything around it breaks: servers are killed, paused, restarted and wiped,
// links between them cut in one direction or both, slowed and reset, disks full,
// slow and broken, and servers taken out of the configuration and in again in
// other roles. Then it looks whether a promise was broken.
//
// All of it is in one test under the build tag chaos, two storms one after the
// other: "links" takes two thirds of the time, behind proxies that can be cut;
// "reconfigs" takes the rest, without proxies, for the lines of a configuration
// are the same for all servers. It is "make chaos", with CHAOS_MINUTES=30 (1 is a
// smoke test), CHAOS_SERVERS=5 that vote and one that observes, CHAOS_SEED to take
// the same faults in the same order again, and CHAOS_KIND, "conclave" or
// "apache-VERSION". Full disks are small file systems in memory, mounted in a
// namespace of the test's own.
//
// What is checked, beside the promises of package workload:
//
//	chaos-X1  No zxid stands for two transactions in the logs of the servers,
//	          and each acknowledged write is what the logs have under its zxid.
//	chaos-X2  The answers on keys that several clients contend for, with reads
//	          after a sync, have one order that explains them all.
//	chaos-X3  When all is healed, every server serves and clients write, within
//	          a bound.
//	chaos-X4  No server ends by itself, unless its disk has failed a sync, nor
//	          does its log report a broken invariant.
//	chaos-X5  When all is healed, the change of the configuration that was asked
//	          for last is in force, on every server that it names. These serve,
//	          and so do those that it takes out. One that was acknowledged never
//	          gives way to an older one.
//
// Faults that no protocol of this kind survives are left out: a disk is lost only
// while all other servers are well, in an ensemble in which as many vote as at
// first, and stays the only fault until it is back.
package chaos
