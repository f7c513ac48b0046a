//go:build linux

// Package check compares counts of two versions of this tree: the tree as it is, and a
// commit, the base.
//
// Times differ from run to run and from machine to machine. How often a request allocates,
// reads, writes and syncs, and how much memory a znode takes, do not. The package measures
// the counts of both versions in the same run, one after the other, and prints a table of
// them, and which counts have grown:
//
//   - allocations and bytes per operation, and bytes per znode, session,
//     watch and connection, by the benchmarks of the processing of requests: a few iterations,
//     of which the times are ignored;
//   - reads, writes and syncs of a real server per operation, and its waits,
//     which are shown and not judged: how often threads sleep depends on other activity of the
//     machine.
//
// Of several runs the least count is used, because disturbances only add to it. A test
// program that is identical in both versions is not run: its counts cannot differ. Counts
// that only one of the versions has are shown and not judged.
package check
