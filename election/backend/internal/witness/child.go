//go:build linux

package witness

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
)

// child is one process of a candidate.
type child struct {
	command *exec.Cmd
	ended   chan struct{}
	led     chan election.Instant // when it said so; nil for one that does not say
}

// spawn starts a process that ends with this one. With a function, which says
// whether a line tells of leading, its output is read.
func spawn(command *exec.Cmd, leads func(line string) bool) (*child, error) {
	c := &child{command: command, ended: make(chan struct{})}
	// The whole group is signalled: what runs the election and what it runs.
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	command.Stderr = os.Stderr
	if leads != nil {
		out, err := command.StdoutPipe()
		if err != nil {
			return nil, err
		}
		c.led = make(chan election.Instant, 1)
		go func() {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				if leads(lines.Text()) {
					c.led <- election.Now()
					return
				}
			}
		}()
	}
	started := make(chan error, 1)
	go func() {
		// The death signal follows the thread that started the process.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := command.Start()
		started <- err
		if err == nil {
			_ = command.Wait() // how it ended does not matter
		}
		close(c.ended)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", command.Path, err)
	}
	return c, nil
}

// leads waits until the process has said that it leads, and returns when. Zero
// for one that does not say.
func (c *child) leads(t *testing.T, patience time.Duration) election.Instant {
	t.Helper()
	if c.led == nil {
		return 0
	}
	select {
	case at := <-c.led:
		return at
	case <-time.After(patience):
		t.Fatalf("%s leads by its key, and does not say so within %v", c.command.Path, patience)
		return 0
	}
}

// end signals the process and waits for its end.
func (c *child) end(s syscall.Signal) {
	c.signal(s)
	<-c.ended
}

// signal goes to the process's group, unless it has ended: the number may be
// another's by then.
func (c *child) signal(s syscall.Signal) {
	select {
	case <-c.ended:
	default:
		_ = syscall.Kill(-c.command.Process.Pid, s) // it may have ended just now
	}
}
