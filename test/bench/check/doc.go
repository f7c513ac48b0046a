//go:build linux

// Package check compares counts of two versions of this tree: the tree as it is,
// and a commit, the base.
//
// Times differ from run to run and from machine to machine; how often a request
// allocates, reads, writes and syncs, and what a znode takes, do not. In go a
// commit and the tree, out comes a table of counts of both, taken one after the other
// in the same run, and which of them have grown:
//
//   - allocations and bytes for each operation, and bytes for each znode, session,
//     watch and connection, by the benchmarks on a request's way: a few iterations,
//     of which the times are ignored;
//   - reads, writes and syncs of a real server for each operation, and its waits,
//     which are shown and not judged: how often threads sleep rests on what else the
//     machine does.
//
// Of several runs the least counts: what disturbs a count adds to it. Of a test
// program that is built alike from both trees nothing is run: its counts cannot
// differ. What only one of the trees has is shown and not judged.
package check
