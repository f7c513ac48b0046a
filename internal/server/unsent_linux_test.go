package server

import (
	"net"
	"syscall"
	"testing"

	"github.com/conclave-project/conclave/internal/ports"
)

// A client on a slow network that reads a long answer takes what it can: the kernel must report
// that within the session timeout.
func TestKernelKeepsLittleForAClient(t *testing.T) {
	s := patient(t, nil)
	dial(t, s, nil)
	becomes(t, s, 1)
	raw, err := s.conns.all()[0].socket.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var limit int
	if e := raw.Control(func(fd uintptr) {
		const notsentLowat = 25
		limit, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, notsentLowat)
	}); e != nil || err != nil || limit != ports.UnsentMax {
		t.Errorf("it keeps %d bytes that it cannot send, %v %v", limit, e, err)
	}
}
