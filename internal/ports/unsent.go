package ports

import "net"

// UnsentMax is about how many bytes the kernel keeps of a socket of LimitUnsent before it has sent them.
const UnsentMax = 256 << 10

// LimitUnsent has the kernel take more bytes of a TCP socket as soon as it has less than half of
// UnsentMax unsent, and nothing beyond UnsentMax. Otherwise Linux takes megabytes, and then nothing
// before a third of them has left: on a slow network a peer that reads all it can looks for
// seconds like one that reads nothing. On other systems, and other connections, it does nothing.
func LimitUnsent(socket net.Conn) {
	if wrapped, ok := socket.(interface{ NetConn() net.Conn }); ok {
		socket = wrapped.NetConn() // below TLS
	}
	if tcp, ok := socket.(*net.TCPConn); ok {
		limitUnsent(tcp)
	}
}
