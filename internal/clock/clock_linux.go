package clock

import (
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// Values of linux/time.h and linux/timerfd.h that package syscall lacks.
const (
	clockBoottime  = 7
	timerAbsolute  = 1
	timerNonblock  = syscall.O_NONBLOCK
	timerCloseExec = syscall.O_CLOEXEC
)

type itimerspec struct {
	interval syscall.Timespec
	value    syscall.Timespec
}

// now reads CLOCK_BOOTTIME. Every kernel since 2.6.39 has it; the answer to a
// kernel that refuses is Go's clock, for the whole life of the process.
func now() Instant {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime,
		uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		return Instant(time.Since(processStart))
	}
	return Instant(ts.Nano())
}

var processStart = time.Now()

// fdTimer is a timerfd on CLOCK_BOOTTIME: it fires at once after a resume,
// where Go's timers would first sleep out the rest of their time.
type fdTimer struct {
	file  *os.File
	fired chan struct{}
	once  sync.Once
}

func newTimer(at Instant) Timer {
	file, err := openTimer(at)
	if err != nil {
		// No file descriptor left is no reason to lose the deadline.
		return newGoTimer(at)
	}
	t := &fdTimer{file: file, fired: make(chan struct{})}
	go t.wait()
	return t
}

func openTimer(at Instant) (*os.File, error) {
	fd, _, errno := syscall.Syscall(syscall.SYS_TIMERFD_CREATE, clockBoottime,
		timerNonblock|timerCloseExec, 0)
	if errno != 0 {
		return nil, os.NewSyscallError("timerfd_create", errno)
	}
	// A zero value would disarm the timer, so the earliest instant is 1 ns.
	spec := itimerspec{value: syscall.NsecToTimespec(max(1, int64(at)))}
	_, _, errno = syscall.Syscall6(syscall.SYS_TIMERFD_SETTIME, fd, timerAbsolute,
		uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	if errno != 0 {
		_ = syscall.Close(int(fd))
		return nil, os.NewSyscallError("timerfd_settime", errno)
	}
	return os.NewFile(fd, "timerfd"), nil
}

// wait ends when the timer fires or Stop closes the file under it.
func (t *fdTimer) wait() {
	var count [8]byte
	if _, err := t.file.Read(count[:]); err == nil {
		close(t.fired)
	}
	t.Stop()
}

func (t *fdTimer) C() <-chan struct{} { return t.fired }

func (t *fdTimer) Stop() {
	t.once.Do(func() { _ = t.file.Close() })
}
