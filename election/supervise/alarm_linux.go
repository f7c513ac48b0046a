package supervise

import (
	"os"
	"syscall"
	"time"
	"unsafe"
)

// alarm is a timer of the kernel that continues this process (SIGCONT), should it be
// stopped when there is something to do: its supervisor may be stopped too, or dead. A
// process that runs ignores the signal.
//
// It goes off once: the kernel does not repeat the timer of a signal that is ignored.
type alarm struct {
	id   int32 // timer_t of the kernel
	made bool
}

const clockBoottime = 7 // linux/time.h: it counts suspension, as package clock does

// signalEvent is struct sigevent, which has 64 bytes.
type signalEvent struct {
	value  uintptr
	signal int32
	notify int32 // 0 is SIGEV_SIGNAL
	_      [13]int32
}

// newAlarm returns one that is not set. Timers count against the number of signals that
// may wait for a user's processes (ulimit -i).
func newAlarm() (alarm, error) {
	event := signalEvent{signal: int32(syscall.SIGCONT)}
	a := alarm{made: true}
	_, _, errno := syscall.Syscall(syscall.SYS_TIMER_CREATE, clockBoottime,
		uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&a.id)))
	if errno != 0 {
		return alarm{}, os.NewSyscallError("timer_create", errno)
	}
	return a, nil
}

// after sets it, and forgets what it was set to before.
func (a alarm) after(d time.Duration) {
	if !a.made {
		return
	}
	spec := struct{ interval, value syscall.Timespec }{
		value: syscall.NsecToTimespec(max(1, int64(d))), // zero would disarm it
	}
	// This fails for a timer only that does not exist.
	_, _, _ = syscall.Syscall6(syscall.SYS_TIMER_SETTIME, uintptr(a.id), 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
}
