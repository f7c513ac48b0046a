// Package workload is clients that write to an ensemble without pause, remember
// what they were told, and check afterwards that the ensemble kept its promises.
//
// It runs against a list of servers and returns figures (writes, gaps, sessions)
// and, from Verify, every broken promise. The clients are those of package
// client; the answers that a program in another language got are added with a
// Ledger.
//
// What is checked:
//
//	workload-K1  Every acknowledged write is there, on every server, and nothing
//	             is there that was not written, or was told to have failed.
//	workload-K2  The zxids of acknowledged writes are all different, and grow
//	             within a session: no two leaders have both committed.
//	workload-K3  A read that follows a sync shows every write that was
//	             acknowledged before the sync was asked for.
//	workload-K4  No session sees a value older than one it has seen before, on
//	             whichever servers.
//	workload-K5  An ephemeral znode lives as long as its session, and not
//	             longer.
//	workload-K6  Servers with the same last zxid have the same tree, stats
//	             included.
//	workload-K7  What clients that contend for the same keys were answered has
//	             one order that explains it.
//
// It kills nobody: see test/servers.
package workload
