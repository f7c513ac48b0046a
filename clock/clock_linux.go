package clock

import (
	"os"
	"syscall"
	"time"
	"unsafe"
)

// Constants of linux/time.h and linux/timerfd.h that package syscall lacks.
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

// now reads CLOCK_BOOTTIME, which every kernel since 2.6.39 has. If the kernel
// refuses, the process uses Go's clock for the rest of its life.
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

// device is a timerfd on CLOCK_BOOTTIME. It goes off at once after a resume, whereas
// Go's timers would first sleep for the rest of their time.
type device struct {
	file *os.File // nil until it has been opened
	fd   uintptr  // of file, which stays open for the life of the process
}

// set makes the device call the function at the given instant, in place of any
// instant set before. It returns false if there is no device.
func (d *device) set(at Instant, call func()) bool {
	if d.file == nil && !d.open(call) {
		return false
	}
	// A zero value would disarm the timer, so the earliest instant is 1 ns.
	spec := itimerspec{value: syscall.NsecToTimespec(max(1, int64(at)))}
	_, _, errno := syscall.Syscall6(syscall.SYS_TIMERFD_SETTIME, d.fd, timerAbsolute,
		uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	return errno == 0
}

// open creates the device, and a goroutine that waits for it for the life of the
// process.
func (d *device) open(call func()) bool {
	fd, _, errno := syscall.Syscall(syscall.SYS_TIMERFD_CREATE, clockBoottime,
		timerNonblock|timerCloseExec, 0)
	if errno != 0 {
		return false
	}
	file := os.NewFile(fd, "timerfd")
	d.file, d.fd = file, fd
	go func() {
		var count [8]byte
		for {
			if _, err := file.Read(count[:]); err != nil {
				panic("clock: read the timer of all deadlines: " + err.Error())
			}
			call()
		}
	}()
	return true
}
