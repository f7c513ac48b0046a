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

// sign is when a process has said that it leads, and with which token; zero if
// it does not know.
type sign struct {
	at    clock.Instant
	token election.Token
}

// signsMax is far more than the leaderships of one process in a run.
const signsMax = 1000

// spawn starts a process that ends with this one. The function reports whether a
// line of its output reports leading, beside those of a witness.
func spawn(command *exec.Cmd, leads func(line string) bool) (*child, error) {
	c := &child{command: command, ended: make(chan struct{}), led: make(chan sign, signsMax)}
	// The whole group is signalled: what runs the election and what it runs.
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	go c.listen(out, leads)
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

// listen notes when the process says that it leads.
func (c *child) listen(out io.Reader, leads func(line string) bool) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		now := clock.Now()
		if text, found := strings.CutPrefix(lines.Text(), leadsMark); found {
			var token election.Token
			_, _ = fmt.Sscan(text, &token) // our own line
			c.led <- sign{now, token}
		} else if leads != nil && leads(lines.Text()) {
			c.led <- sign{now, 0}
		}
	}
}

// takeUpLimit is how long a leader by the store's view may take to say so. It
// may never do: it can lose the election before it knows of it.
const takeUpLimit = 15 * time.Second

// leads waits until the process has said that it leads with this token, and
// returns when; false if it does not.
func (c *child) leads(token election.Token) (clock.Instant, bool) {
	limit := time.After(takeUpLimit)
	for {
		select {
		case s := <-c.led:
			if s.token == token || s.token == 0 {
				return s.at, true
			}
			if s.token > token { // of a later leadership, which is asked for next
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

// signal goes to the process's group, unless it has ended: the number may be
// another's by then.
func (c *child) signal(s syscall.Signal) {
	select {
	case <-c.ended:
	default:
		_ = syscall.Kill(-c.command.Process.Pid, s) // it may have ended just now
	}
}
