//go:build unix

package supervise

import (
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/conclave-project/conclave/clock"
)

// page is memory that supervisor and guardian share. It holds the times until which the
// leadership is proved, and the guardian's pulse, a counter that grows while it runs. The
// supervisor writes the times at every renewal without waiting for the guardian, and a
// guardian that was stopped for a while reads the current times, not those of when it was
// stopped. Messages could not do either.
//
// When the times grow, the deadline is written first; when a lease got shorter, the end is.
// A reader reads the end first. So the deadline that it sees is never older than the end,
// except for a moment before it learns of a shorter lease.
type page struct{ end, deadline, pulse *atomic.Int64 }

// pageBytes is enough for the two times and the pulse.
const pageBytes = 24

// newPage returns a page and the file behind it, which no longer has a name.
func newPage() (*os.File, page, error) {
	file, err := pageFile()
	if err != nil {
		return nil, page{}, fmt.Errorf("supervise: share memory with the guardian: %w", err)
	}
	shared, err := openPage(file)
	if err != nil {
		_ = file.Close()
		return nil, page{}, err
	}
	return file, shared, nil
}

// pageFile makes a small file without a name, in memory if possible. It writes the bytes,
// so that a full disk is an error now and not a signal later.
func pageFile() (*os.File, error) {
	var file *os.File
	var err error
	for _, dir := range []string{"/dev/shm", os.TempDir()} {
		if file, err = os.CreateTemp(dir, "conclave-lease-*"); err != nil {
			continue
		}
		_ = os.Remove(file.Name())
		if _, err = file.Write(make([]byte, pageBytes)); err == nil {
			return file, nil
		}
		_ = file.Close()
	}
	return nil, err
}

// openPage maps the file into this process. The guardian keeps the mapping until it exits;
// a supervisor has one page for each leadership, and closes it.
func openPage(file *os.File) (page, error) {
	memory, err := syscall.Mmap(int(file.Fd()), 0, pageBytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return page{}, fmt.Errorf("supervise: share memory with the guardian: %w", err)
	}
	return page{
		end:      (*atomic.Int64)(unsafe.Pointer(&memory[0])),
		deadline: (*atomic.Int64)(unsafe.Pointer(&memory[8])),
		pulse:    (*atomic.Int64)(unsafe.Pointer(&memory[16])),
	}, nil
}

// close removes the mapping. The page must not be used after that.
func (p page) close() {
	_ = syscall.Munmap(unsafe.Slice((*byte)(unsafe.Pointer(p.end)), pageBytes))
}

// set changes the times. It reports whether the guardian must be told to read them now: it
// sleeps until the end that it read last.
func (p page) set(to leaseTimes) (earlier bool) {
	if int64(to.End) < p.end.Load() {
		p.end.Store(int64(to.End))
		earlier = true
	}
	earlier = earlier || int64(to.Deadline) < p.deadline.Load()
	p.deadline.Store(int64(to.Deadline))
	p.end.Store(int64(to.End))
	return earlier
}

// get returns the current times.
func (p page) get() leaseTimes {
	end := clock.Instant(p.end.Load())
	return leaseTimes{End: end, Deadline: clock.Instant(p.deadline.Load())}
}
