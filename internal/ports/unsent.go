package ports

import "net"

// UnsentMax is roughly how many unsent bytes the kernel keeps for a socket after LimitUnsent.
const UnsentMax = 256 << 10

// LimitUnsent makes the kernel accept more bytes for a TCP socket only while it has less than half
// of UnsentMax unsent, and never more than UnsentMax. Otherwise Linux accepts megabytes, and then
// nothing until a third of them is sent: on a slow network a peer that reads all it can would look
// for seconds like one that reads nothing. On other systems, and for other connections, LimitUnsent
// does nothing.
func LimitUnsent(socket net.Conn) {
	if wrapped, ok := socket.(interface{ NetConn() net.Conn }); ok {
		socket = wrapped.NetConn() // below TLS
	}
	if tcp, ok := socket.(*net.TCPConn); ok {
		limitUnsent(tcp)
	}
}
