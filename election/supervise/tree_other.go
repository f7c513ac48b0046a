//go:build unix && !linux

package supervise

import (
	"os"
	"syscall"
	"time"
)

// ownProgram returns the path from which this process was started.
func ownProgram() (string, error) { return os.Executable() }

const procDir = ""

// checkProc has nothing to check: only the process group is killed on this system.
func checkProc(string) error { return nil }

// becomeSubreaper does nothing: this system has no subreapers.
func becomeSubreaper() error { return nil }

func commandAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// groupLives reports whether any process of the command's group is left.
func groupLives(group int) bool { return syscall.Kill(-group, 0) == nil }

// relative is a descendant of this process.
type relative struct{ pid, parent, group int }

func (r relative) signal(how syscall.Signal) { _ = syscall.Kill(r.pid, how) }

// descendants returns nil: only the process group is known on this system.
func descendants(int) []relative { return nil }

// isStopped cannot find out on this system.
func isStopped(int) bool { return true }

// startReaper does nothing: orphans become children of init.
func startReaper() (stop func()) { return func() {} }

// alarm does nothing on this system; on Linux it continues a stopped process.
type alarm struct{}

func newAlarm() (alarm, error) { return alarm{}, nil }

func (alarm) after(time.Duration) {}
