//go:build linux

package overlap

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
)

// child is one process of a candidate.
type child struct {
	command *exec.Cmd
	ended   chan struct{}
	led     chan sign
}

// sign says when a process has reported that it leads, and with which token; zero if the
// process does not know it.
type sign struct {
	at    clock.Instant
	token election.Token
}

// signsMax is far more than the number of leaderships of one process in a run.
const signsMax = 1000

// spawn starts a process that is killed when this one ends. leads reports whether a line of
// its output says that it leads; lines with leadsMark always do.
func spawn(command *exec.Cmd, leads func(line string) bool) (*child, error) {
	c := &child{command: command, ended: make(chan struct{}), led: make(chan sign, signsMax)}
	// Signals go to the whole group: the candidate and what it runs while it leads.
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	go c.listen(out, leads)
	started := make(chan error, 1)
	go func() {
		// The parent-death signal is sent when the thread that started the process ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := command.Start()
		started <- err
		if err == nil {
			_ = command.Wait() // its exit status does not matter
		}
		close(c.ended)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", command.Path, err)
	}
	return c, nil
}

// listen records each time that the process reports that it leads.
func (c *child) listen(out io.Reader, leads func(line string) bool) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		now := clock.Now()
		if text, found := strings.CutPrefix(lines.Text(), leadsMark); found {
			var token election.Token
			_, _ = fmt.Sscan(text, &token) // the line is ours
			c.led <- sign{now, token}
		} else if leads != nil && leads(lines.Text()) {
			c.led <- sign{now, 0}
		}
	}
}

// takeUpLimit is how long a leader in the store's view may take to report that it leads. It
// may never do so, if it loses the election before it knows that it has won.
const takeUpLimit = 15 * time.Second

// leads waits until the process reports that it leads with this token, and returns when. It
// returns false if the process does not.
func (c *child) leads(token election.Token) (clock.Instant, bool) {
	limit := time.After(takeUpLimit)
	for {
		select {
		case s := <-c.led:
			if s.token == token || s.token == 0 {
				return s.at, true
			}
			if s.token > token { // a later leadership: keep it for the next call
				c.led <- s
				return 0, false
			}
		case <-c.ended:
			return 0, false
		case <-limit:
			return 0, false
		}
	}
}

// end signals the process and waits for its end.
func (c *child) end(s syscall.Signal) {
	c.signal(s)
	<-c.ended
}

// signal signals the process's group unless the process has ended: its number may have been
// reused.
func (c *child) signal(s syscall.Signal) {
	select {
	case <-c.ended:
	default:
		_ = syscall.Kill(-c.command.Process.Pid, s) // an error: it has ended just now
	}
}
