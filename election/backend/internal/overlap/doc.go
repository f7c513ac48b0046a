// Package overlap finds out whether two candidates, of one program or of two, ever led at
// the same time.
//
// It runs real processes, ours and those of another program, and records the spans of time
// in which each of them considered itself the leader. What always holds:
//
//	overlap-V1  A process records its leadership with the instant before it
//	            checked that it leads: a span is never longer than the
//	            leadership, whatever is killed or frozen, and when.
//	overlap-V2  All instants are of the machine's clock, which all processes
//	            share.
//
// It is for tests. A test binary runs its own candidates by starting itself again; see
// Main.
package overlap
