// Package autobackup takes backups of a running server on its own schedule.
//
// It takes the settings of zoo.cfg and a server, writes the files that `conclave backup
// take` writes to the place that the settings name, and reports to monitoring.
//
//	settings.go  what, where, how often, and a text that says so
//	runner.go    the goroutine that takes one backup after the other
//	source.go    reads the server's files no faster than allowed
//	target.go    writes no more than the disk has space for
//
// What always holds:
//
//	autobackup-B1  The server never waits for a backup: its loop is only asked for its status, as
//	               by monitoring, and all files are read in another goroutine.
//	autobackup-B2  Nothing is read faster than BytesPerSecond, and nothing is written that
//	               leaves less than FreeBytesMin on the disk of a directory.
//	autobackup-B3  A backup that fails does not change earlier ones, and is counted. It is tried
//	               again after a minute at the latest.
//	autobackup-B4  Two servers that write to one place at the same time do no harm: a directory is
//	               locked, and in a store both write files of the same history, whose names
//	               say what they contain.
//
// It does not verify backups, because that takes as much memory as a server: `conclave
// backup verify` does so on another machine.
package autobackup
