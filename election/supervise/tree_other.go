//go:build unix && !linux

package supervise

import (
	"os"
	"syscall"
	"time"
)

// ownProgram is the path that this process was started by.
func ownProgram() (string, error) { return os.Executable() }

const procDir = ""

// checkProc: the process group is all that is killed here.
func checkProc(string) error { return nil }

// becomeSubreaper: there is no such thing here.
func becomeSubreaper() error { return nil }

func commandAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// groupLives reports whether anybody of the command's process group lives.
func groupLives(group int) bool { return syscall.Kill(-group, 0) == nil }

// relative is a process among the descendants.
type relative struct{ pid, parent, group int }

func (r relative) signal(how syscall.Signal) { _ = syscall.Kill(r.pid, how) }

// descendants cannot be found here; the process group is all there is.
func descendants(int) []relative { return nil }

// isStopped cannot tell here.
func isStopped(int) bool { return true }

// startReaper: orphans go to init here.
func startReaper() (stop func()) { return func() {} }

// alarm would continue this process, should it be stopped; not here.
type alarm struct{}

func newAlarm() (alarm, error) { return alarm{}, nil }

func (alarm) after(time.Duration) {}
