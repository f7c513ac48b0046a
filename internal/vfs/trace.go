package vfs

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Trace collects the operations that change the disk, one line each, with the
// last part of each name: the durability protocol of a program as text. Use its
// Before in a Faulty. It serves one goroutine.
type Trace struct{ lines []string }

// Before notes op and never fails it.
func (t *Trace) Before(op Op) error {
	if op.Changes() {
		t.lines = append(t.lines, op.String())
	}
	return nil
}

// Take returns what was noted since the last Take, each line ended.
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
