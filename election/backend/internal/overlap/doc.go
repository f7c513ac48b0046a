// Package overlap judges whether two programs that share an election ever led
// at once.
//
// In go real processes, ours and those of another program, out come the spans
// of time in which each considered itself leader. What always holds:
//
//	overlap-V1  A process writes down that it leads with the instant before it
//	            asked itself: a span is never longer than the leadership was,
//	            whatever is killed or frozen when.
//	overlap-V2  All instants are of the clock of the machine, which all
//	            processes share.
//
// It is for tests: a test binary runs its own candidates by starting itself
// again, see Main.
package overlap
