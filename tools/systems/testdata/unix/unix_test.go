package unix_test

import (
	"syscall"
	"testing"

	"github.com/conclave-project/conclave/tools/systems/testdata/unix"
)

func TestLock(t *testing.T) {
	if unix.Lock(-1) != syscall.EBADF || syscall.EPOLLIN == 0 {
		t.Error("no such file, and it is locked")
	}
}
