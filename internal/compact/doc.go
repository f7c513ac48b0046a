// Package compact keeps millions of small records in memory without a pointer to any of them:
// records in a Slab, their bytes in an Arena, and an Index that finds them. The garbage collector
// sees only a few large pieces, and a record takes little more than its fields.
//
// Records and blocks of bytes are addressed by numbers. A number is not checked: after its
// record or block was returned, it leads to whatever is there now. Only one goroutine at a time
// may change a value.
package compact
