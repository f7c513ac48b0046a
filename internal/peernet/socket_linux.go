package peernet

import (
	"net"
	"syscall"
	"time"
)

// tcpUserTimeout is TCP_USER_TIMEOUT, which package syscall does not name.
const tcpUserTimeout = 18

// endUnacknowledged makes the kernel end a connection whose peer acknowledges
// nothing for the given time. Otherwise the kernel retransmits after pauses that
// double, up to two minutes, so data may arrive that long after the network has
// recovered.
func endUnacknowledged(socket net.Conn, after time.Duration) {
	if raw := rawConn(bare(socket)); raw != nil {
		_ = raw.Control(func(fd uintptr) {
			_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(after.Milliseconds()))
		})
	}
}
