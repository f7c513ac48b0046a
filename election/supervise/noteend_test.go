//go:build unix

package supervise

import (
	"context"
	"syscall"
	"testing"
)

// A command that a signal ends before its leadership is over still has its own exit code.
func TestFastCommandHasItsExitCode(t *testing.T) {
	s := &supervisor{code: 11}
	(&turn{supervisor: s, ctx: context.Background(), stopSignal: syscall.SIGTERM}).noteEnd()
	if code, err := s.result(&stopError{syscall.SIGTERM}); code != 11 || err != nil {
		t.Errorf("%d, %v", code, err)
	}
	(&turn{supervisor: s, ctx: context.Background()}).noteEnd()
	if code, _ := s.result(&stopError{syscall.SIGTERM}); code != exitSignal+int(syscall.SIGTERM) {
		t.Errorf("%d for a run that was told to end with no command", code)
	}
}
