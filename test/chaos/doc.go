// Package chaos lets clients work on an ensemble of real processes while
// everything around it breaks: servers are killed, paused, restarted and wiped,
// links between them cut in one direction or both, slowed and reset, disks full,
// slow and broken. Then it looks whether a promise was broken.
//
// All of it is in one test under the build tag chaos: "make chaos", with
// CHAOS_MINUTES=30 (1 is a smoke test), CHAOS_SERVERS=5 that vote and one that
// observes, CHAOS_SEED to take the same faults in the same order again, and
// CHAOS_KIND, "conclave" or "apache-VERSION". Full disks are small file systems
// in memory, mounted in a namespace of the test's own.
//
// What is checked, beside the promises of package workload:
//
//	X1  No zxid stands for two transactions in the logs of the servers, and each
//	    acknowledged write is what the logs have under its zxid.
//	X2  The answers on keys that several clients contend for, with reads behind a
//	    sync, have one order that explains them all.
//	X3  When all is healed, every server serves and clients write, within a bound.
//	X4  No server ends by itself, unless its disk has failed a sync, nor does its
//	    log tell of a broken invariant.
//
// Faults that no protocol of this kind survives are left out: a disk is lost only
// while all other servers are well, and stays the only fault until it is back.
package chaos
