//go:build unix

package peernet

import (
	"net"
	"syscall"
)

// rawConn returns the raw connection for writes that do not wait, or nil: a TLS
// connection must use its own Write.
func rawConn(socket net.Conn) syscall.RawConn {
	s, ok := socket.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// writeSocket writes what the socket takes without waiting. An error shows up
// again when the rest is written.
func writeSocket(fd uintptr, b []byte) int {
	n, _ := syscall.Write(int(fd), b)
	return max(n, 0)
}
