package supervise

import (
	"os"
	"syscall"
	"time"
	"unsafe"
)

// alarm is a kernel timer that sends SIGCONT to this process. If the process is stopped
// when it has something to do, the timer continues it even if its supervisor is stopped or
// dead. A running process ignores the signal.
//
// It goes off once: the kernel does not repeat a timer whose signal is ignored.
type alarm struct {
	id   int32 // timer_t of the kernel
	made bool
}

const clockBoottime = 7 // linux/time.h; this clock counts suspension, as package clock does

// signalEvent is the kernel's struct sigevent, 64 bytes long.
type signalEvent struct {
	value  uintptr
	signal int32
	notify int32 // 0 is SIGEV_SIGNAL
	_      [13]int32
}

// newAlarm returns an alarm that is not set. Each timer counts against the user's limit of
// pending signals (ulimit -i).
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

// after sets the alarm to go off after d; it replaces an earlier setting.
func (a alarm) after(d time.Duration) {
	if !a.made {
		return
	}
	spec := struct{ interval, value syscall.Timespec }{
		value: syscall.NsecToTimespec(max(1, int64(d))), // zero would disarm it
	}
	// This can fail only for a timer that does not exist.
	_, _, _ = syscall.Syscall6(syscall.SYS_TIMER_SETTIME, uintptr(a.id), 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
}
