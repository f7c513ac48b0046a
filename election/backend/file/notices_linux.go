package file

import (
	"os"
	"sync/atomic"
	"syscall"
)

// What to watch for: a closed lock or entry (its holder has gone), files that are created
// and removed, and the removal of the directory.
const noticeMask = syscall.IN_CLOSE_WRITE | syscall.IN_CREATE | syscall.IN_DELETE |
	syscall.IN_MOVED_TO | syscall.IN_DELETE_SELF | syscall.IN_MOVE_SELF | syscall.IN_ONLYDIR

// notices is an inotify instance and the goroutine that reads it.
type notices struct {
	file *os.File
	over atomic.Bool
}

// openNotices watches the directories; it returns nil if it cannot watch all of them.
func openNotices(dirs []string, tell func()) *notices {
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if err != nil {
		return nil
	}
	for _, dir := range dirs {
		if _, err := syscall.InotifyAddWatch(fd, dir, noticeMask); err != nil {
			_ = syscall.Close(fd)
			return nil
		}
	}
	n := &notices{file: os.NewFile(uintptr(fd), "inotify")}
	go n.read(tell)
	return n
}

// read does not evaluate the notices: each one is a reason to read the files. It stops
// watching when a directory has gone (IN_IGNORED is then among the last notices), which the
// caller finds out by itself.
func (n *notices) read(tell func()) {
	buffer := make([]byte, 4096)
	for {
		if _, err := n.file.Read(buffer); err != nil {
			n.over.Store(true)
			return
		}
		tell()
	}
}

func (n *notices) alive() bool { return n != nil && !n.over.Load() }

// close makes the reader end without waiting for it: the kernel takes some ten milliseconds
// to remove an inotify instance, and a release must not wait for that.
func (n *notices) close() {
	if n != nil {
		go func() { _ = n.file.Close() }()
	}
}
