//go:build unix

package peernet

import (
	"net"
	"syscall"
)

// rawConn gives a socket to be written to without waiting, nil if it has none:
// one of TLS must go through its own Write.
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

// writeSocket writes what the socket takes without waiting. The write of the
// rest meets the same error.
func writeSocket(fd uintptr, b []byte) int {
	n, _ := syscall.Write(int(fd), b)
	return max(n, 0)
}
