// Package compact keeps millions of small records in memory without a pointer to any of them:
// records in a Slab, their bytes in an Arena, and an Index that finds them. The garbage collector
// sees some large pieces, whatever is in them, and a record takes little more than its fields.
//
// A record is named by a number, as is a block of bytes. A number of what was returned leads to
// what is there now: nothing is checked. One goroutine changes a value at a time.
package compact
