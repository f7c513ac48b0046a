package vfs

import (
	"errors"
	"fmt"
	"strings"
)

// Corruption is the class of errors that say that the disk does not hold what
// was written. A torn end after a crash is not corruption.
type Corruption struct {
	File     string // full name
	Offset   int64  // of the damaged part, in the (uncompressed) file
	Expected string // what should be there; may be empty
	Found    string // what is there
	Remedy   string // what a person can do about it; one sentence
}

// Error says where the damage is, what it is and what to do.
func (c *Corruption) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is damaged at offset %d: found %s", c.File, c.Offset, c.Found)
	if c.Expected != "" {
		fmt.Fprintf(&b, ", expected %s", c.Expected)
	}
	if c.Remedy != "" {
		fmt.Fprintf(&b, "; %s", c.Remedy)
	}
	return b.String()
}

// IsCorruption reports whether err is, or wraps, a Corruption.
func IsCorruption(err error) bool {
	var c *Corruption
	return errors.As(err, &c)
}

// Replace is the advice for a directory that cannot be used. Its steps are in a
// safe order: the directory is emptied only after a copy is made, and only when
// the other servers cannot need its content.
const Replace = "keep a copy of the directory before anything else; then put back a backup, or, in an ensemble whose other " +
	"servers are all well (`conclave status`: what this one had acknowledged may be on just one other), move it away, " +
	"keep myid, and start: the server fetches everything from them"

// TooLong is the error for an undamaged record or znode that is longer than the
// settings let this server read.
type TooLong struct {
	File   string // full name
	Offset int64  // of the record, in the (uncompressed) file
	Bytes  int
	Limit  int // bytes that may be read: jute.maxbuffer and its extrasize
}

// Error says which setting was different when the record was written.
func (e *TooLong) Error() string {
	return fmt.Sprintf("%s has %d bytes in one piece at offset %d, and this server may read %d: nothing is damaged, "+
		"jute.maxbuffer was larger when it was written; set jute.maxbuffer=%d or what it was (Apache takes it from "+
		"-Djute.maxbuffer=... in SERVER_JVMFLAGS or java.env, not from zoo.cfg), or jute.maxbuffer.extrasize",
		e.File, e.Bytes, e.Offset, e.Limit, (e.Bytes+1)/2)
}

// IsTooLong reports whether err is, or wraps, a TooLong.
func IsTooLong(err error) bool {
	var e *TooLong
	return errors.As(err, &e)
}
