// Package audit writes the audit log: who changed what, and whether it was done, one line
// for each change, as Apache ZooKeeper's Slf4jAuditLogger and its appender write them.
//
// It turns events into lines of a file. Add formats the line immediately and puts it
// into a queue; one goroutine writes the queue to the file, and begins a new file when
// the current one is full.
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
//	audit-A1  A line has one event, a field one value: no name or path that a
//	          client chooses can end a line or a field.
//	audit-A2  Add never waits for the file. A line that does not fit in the queue is
//	          lost, counted and reported.
//	audit-A3  The file is only appended to. A line left incomplete by a crash or a
//	          full disk is ended before the next one.
//	audit-A4  A line has no more than some KiB, whatever a client sends: a long value is
//	          replaced by its beginning, its length and a hash.
//
// It decides nothing: a server whose audit log cannot be written continues to serve.
package audit
