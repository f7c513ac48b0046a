package vfs

import (
	"errors"
	"fmt"
	"strings"
)

// Corruption is the one class of errors that means: what is on the disk is not
// what was written. A torn end after a crash is not corruption.
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

// IsCorruption tells whether err is, or wraps, a Corruption.
func IsCorruption(err error) bool {
	var c *Corruption
	return errors.As(err, &c)
}
