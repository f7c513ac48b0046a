// Package audit writes the audit log: who changed what, and whether it was done, one line
// for each change, as Apache ZooKeeper's Slf4jAuditLogger and its appender write them.
//
// In go events, out comes a file of lines. Add makes the line at once and puts it into a
// queue; one goroutine writes what the queue has, and begins a new file when the one it
// has is full.
//
//	event.go   an event, and its line
//	bound.go   what stands in a line for a long path or list
//	escape.go  what keeps a client from forging a field or a line
//	batch.go   how lines come into the queue, many at a time
//	log.go     the queue and its writer
//	file.go    the file, and those before it
//
// What always holds:
//
//	audit-A1  A line has one event, a field one value: no name or path that a client
//	          chooses ends either.
//	audit-A2  Add waits for no file. What does not fit in the queue is lost, counted and
//	          told of.
//	audit-A3  The file is only added to. A line that was begun before a crash, or before
//	          the disk was full, is ended before the next one.
//	audit-A4  A line has no more than some KiB, whatever a client sends: a long value is its
//	          beginning, how long it is, and a hash of it.
//
// It decides nothing: a server whose audit log cannot be written serves on.
package audit
