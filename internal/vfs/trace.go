package vfs

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Trace records the operations that change the disk, one line each, with the
// last part of each name. The result is the durability protocol of a program as
// text. Use its Before in a Faulty. It is not safe for concurrent use.
type Trace struct{ lines []string }

// Before records op and never fails.
func (t *Trace) Before(op Op) error {
	if op.Changes() {
		t.lines = append(t.lines, op.String())
	}
	return nil
}

// Take returns the lines since the last Take, each with a line end.
func (t *Trace) Take() string {
	text := strings.Join(append(t.lines, ""), "\n")
	t.lines = nil
	return text
}

// String prints the operation as a trace line.
func (o Op) String() string {
	switch o.Kind {
	case KindWrite, KindRead, KindTruncate, KindAllocate:
		return fmt.Sprintf("%s %s %d", o.Kind, filepath.Base(o.Name), o.Bytes)
	case KindRename:
		return fmt.Sprintf("%s %s -> %s", o.Kind, filepath.Base(o.Name), filepath.Base(o.Target))
	}
	return fmt.Sprintf("%s %s", o.Kind, filepath.Base(o.Name))
}
