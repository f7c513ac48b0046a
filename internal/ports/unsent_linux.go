package ports

import (
	"net"
	"syscall"
)

// tcpNotsentLowat is TCP_NOTSENT_LOWAT, which package syscall does not name.
const tcpNotsentLowat = 25

func limitUnsent(socket *net.TCPConn) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return // the connection is closed
	}
	_ = raw.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpNotsentLowat, UnsentMax)
	})
}
