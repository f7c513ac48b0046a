//go:build unix

package server

import (
	"errors"
	"syscall"
)

// polled reports whether a socket's descriptor can be read and written directly, so that an
// idle connection needs no buffer.
const polled = true

// readSocket reads what is there; again is true if there is nothing yet.
func readSocket(fd uintptr, b []byte) (n int, again bool, err error) {
	for {
		n, err = syscall.Read(int(fd), b)
		if !errors.Is(err, syscall.EINTR) {
			return max(n, 0), errors.Is(err, syscall.EAGAIN), err
		}
	}
}

// socketReady reports whether there is something to read, or the end.
func socketReady(fd uintptr) bool {
	var b [1]byte
	_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return !errors.Is(err, syscall.EAGAIN)
}

// socketEnded reports whether the other side has closed and everything it sent was read. It
// does not wait, and consumes nothing.
func socketEnded(fd uintptr) bool {
	var b [1]byte
	n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return n == 0 && err == nil || errors.Is(err, syscall.ECONNRESET)
}

// writeSocket writes what the socket accepts without waiting.
func writeSocket(fd uintptr, b []byte) int {
	n, _ := syscall.Write(int(fd), b)
	return max(n, 0)
}
