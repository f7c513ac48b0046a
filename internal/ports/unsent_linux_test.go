package ports

import (
	"io"
	"net"
	"syscall"
	"testing"
	"unsafe"
)

// unsent returns how many bytes of a socket the kernel has not sent yet (SIOCOUTQNSD).
func unsent(t *testing.T, raw syscall.RawConn) int {
	t.Helper()
	const siocOutqNsd = 0x894b
	var n int32
	err := raw.Control(func(fd uintptr) {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, siocOutqNsd, uintptr(unsafe.Pointer(&n))); errno != 0 {
			t.Error(errno)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}

// The kernel does not buffer megabytes for a peer that reads slowly.
func TestKernelKeepsLittleForASlowPeer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	far, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	near, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	LimitUnsent(near)
	raw, err := near.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 64<<10)
	for round := range 20 { // the peer reads: the kernel accepts more as it sends more
		taken := int64(0)
		for n := 1; n > 0; taken += int64(n) {
			if err := raw.Write(func(fd uintptr) bool {
				n, _ = syscall.Write(int(fd), buffer)
				n = max(n, 0)
				return true
			}); err != nil {
				t.Fatal(err)
			}
		}
		if n := unsent(t, raw); n > UnsentMax+len(buffer) {
			t.Fatalf("in round %d it keeps %d bytes unsent", round, n)
		}
		if _, err := io.CopyN(io.Discard, far, taken); err != nil {
			t.Fatal(err)
		}
	}
}
