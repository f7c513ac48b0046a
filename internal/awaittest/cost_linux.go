package awaittest

import (
	"syscall"
	"time"
	"unsafe"
)

// spent returns the processor time that this thread has used.
func spent() time.Duration {
	const threadTime = 3 // CLOCK_THREAD_CPUTIME_ID
	var at syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, threadTime, uintptr(unsafe.Pointer(&at)), 0)
	if errno != 0 {
		panic(errno)
	}
	return time.Duration(at.Nano())
}
