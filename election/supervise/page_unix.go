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

// page is memory that supervisor and guardian share: until when the leadership
// is proved, and the pulse of the guardian, which grows while it runs. The supervisor writes it at every renewal without ever waiting for
// the guardian, and a guardian that was stopped for a while reads what is true
// now, not what was true when it stopped. Messages could promise neither.
//
// Times that grow are written deadline first, those of a lease that got shorter
// end first. The end is read first, so that a reader has a deadline that is never
// older than the end, but for a moment before it is told of a shorter lease.
type page struct{ end, deadline, pulse *atomic.Int64 }

// pageBytes is enough for the two times and the pulse.
const pageBytes = 24

// newPage returns a page and the file behind it, which has no name any more.
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

// pageFile makes a small file without a name, in memory where there is such a
// place. Its bytes are written here, so that a full disk is an error now and not
// a signal later.
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

// openPage maps the file into this process. The mapping lasts as long as the
// process: one page for every leadership of a supervisor until close.
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

// close removes the mapping. The page must not be used any more.
func (p page) close() {
	_ = syscall.Munmap(unsafe.Slice((*byte)(unsafe.Pointer(p.end)), pageBytes))
}

// set moves the times, and reports whether the guardian must look at them now: it
// sleeps until the end that it has read.
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

// get returns the times as they are now.
func (p page) get() leaseTimes {
	end := clock.Instant(p.end.Load())
	return leaseTimes{End: end, Deadline: clock.Instant(p.deadline.Load())}
}
