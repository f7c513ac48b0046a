package file

import (
	"os"
	"sync/atomic"
	"syscall"
)

// What a watch is for: a lock or entry closed (its holder has gone), files
// that come and go, the directory itself removed.
const noticeMask = syscall.IN_CLOSE_WRITE | syscall.IN_CREATE | syscall.IN_DELETE |
	syscall.IN_MOVED_TO | syscall.IN_DELETE_SELF | syscall.IN_MOVE_SELF | syscall.IN_ONLYDIR

// notices is an inotify instance with the goroutine that reads it.
type notices struct {
	file *os.File
	over atomic.Bool
}

// openNotices watches the directories, or returns nil when it cannot watch all
// of them.
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

// read does not look into the notices: each is a reason to look at the files.
// It stops watching when a directory has gone (IN_IGNORED is among the last
// notices then), which the reader of the files finds out by itself.
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

// close makes the reader end. It does not wait for it: the kernel takes some
// ten milliseconds to take an inotify instance down, and a release need not.
func (n *notices) close() {
	if n != nil {
		go func() { _ = n.file.Close() }()
	}
}
