// Package autobackup takes the backups of a running server on its own schedule.
//
// In go the settings of zoo.cfg and a server; out come the files that `conclave backup take`
// writes, at the place that the settings name, and a report for monitoring.
//
//	settings.go  what, where, how often, and how that is said
//	runner.go    the goroutine that takes one backup after the other
//	source.go    reads the server's files no faster than it may
//	target.go    writes no more than the disk has space for
//
// What always holds:
//
//	autobackup-B1  The server waits for nothing here: the loop is asked for its status, as
//	               monitoring asks it, and all files are read beside it.
//	autobackup-B2  Nothing is read faster than BytesPerSecond, and nothing is written that
//	               leaves less than FreeBytesMin on the disk of a directory.
//	autobackup-B3  A backup that fails changes nothing that was taken before, and is counted.
//	               It is tried again, after a minute at the latest.
//	autobackup-B4  Two servers that write to one place at a time do no harm: a directory is
//	               locked, and in a store each writes files of the one history, whose names
//	               say what they have.
//
// It verifies nothing, for that takes the memory of a server: `conclave backup verify` does
// so elsewhere.
package autobackup
