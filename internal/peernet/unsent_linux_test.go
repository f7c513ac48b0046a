package peernet

import (
	"net"
	"syscall"
	"testing"

	"github.com/conclave-project/conclave/internal/ports"
)

// A learner on a slow network receives as fast as it can. At either end of a link the kernel
// must show this within SilenceMax.
func TestKernelKeepsLittleForAPeer(t *testing.T) {
	one, other, _, _ := pair(t)
	for _, s := range []*server{one, other} {
		s.Links.mu.Lock()
		for k := range s.Links.mu.running {
			raw, err := k.socket.(*net.TCPConn).SyscallConn()
			must(t, err)
			var limit int
			must(t, raw.Control(func(fd uintptr) {
				const notsentLowat = 25
				limit, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, notsentLowat)
			}))
			if err != nil || limit != ports.UnsentMax {
				t.Errorf("it keeps %d bytes that it cannot send, %v", limit, err)
			}
		}
		s.Links.mu.Unlock()
	}
}
