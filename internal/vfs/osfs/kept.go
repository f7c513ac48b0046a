package osfs

import (
	"errors"
	"os"
	"sync"
	"syscall"
)

// kept are descriptors for the files to come. Clients, other servers and operators each have a
// limit on their connections, but together they may use up all descriptors of a process that has
// few, and a server that cannot open the next file of its log ends. All methods are safe on nil,
// which keeps nothing.
type kept struct {
	most int

	mu    sync.Mutex
	files []*os.File
}

// open is os.OpenFile, with a kept descriptor if the process or the machine has no other. The loop is for connections
// that take the descriptor first.
func (k *kept) open(name string, flag int, mode os.FileMode) (*os.File, error) {
	f, err := os.OpenFile(name, flag, mode)
	for (errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)) && k.give() {
		f, err = os.OpenFile(name, flag, mode)
	}
	return f, err
}

// give closes a descriptor; false if none is left.
func (k *kept) give() bool {
	if k == nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	last := len(k.files) - 1
	if last < 0 {
		return false
	}
	_ = k.files[last].Close()
	k.files = k.files[:last]
	return true
}

// fill opens descriptors until there are enough, or the process has no more.
func (k *kept) fill() {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.files) < k.most {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return // the next file that is closed leaves one
		}
		k.files = append(k.files, f)
	}
}
