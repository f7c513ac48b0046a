//go:build unix

package supervise

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/clock"
)

// File descriptors that the supervisor gives to the guardian.
const (
	controlFD = 3
	statusFD  = 4
	locksFD   = 5
)

const (
	// killPause is the pause between two rounds of killing: time for the
	// kernel to end those killed and to hand their children over.
	killPause = 2 * time.Millisecond
	// messagesMax bounds what waits for the guardian; it is read at once.
	messagesMax = 16
)

// guardian starts the command and sees to its end. One goroutine owns it.
type guardian struct {
	clock   clock.Clock
	control chan message
	status  *os.File
	parent  int
	order   startOrder

	pid      int
	code     int
	exited   bool
	orphaned bool // the supervisor has gone

	stopping bool
	stopAt   election.Instant // SIGKILL after a stop; valid when stopping
	killing  bool
	pause    time.Duration // until the next round of killing
}

// Guardian is the whole life of a guardian process. It returns the exit code.
func Guardian() int {
	// The parent-death signal of the command comes when the thread that
	// started it ends, so this goroutine keeps its thread for ever.
	runtime.LockOSThread()
	parent := os.Getppid()
	g := &guardian{clock: clock.System(), control: make(chan message, messagesMax),
		status: os.NewFile(statusFD, "status"), parent: parent}
	syscall.CloseOnExec(controlFD)
	syscall.CloseOnExec(statusFD)
	// Caught and dropped, not ignored: the command would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP,
		syscall.SIGQUIT, syscall.SIGPIPE, syscall.SIGTSTP)
	go receive(os.NewFile(controlFD, "control"), g.control)
	first, ok := <-g.control
	if !ok || first.Start == nil {
		return ExitError
	}
	g.order = *first.Start
	if err := g.start(); err != nil {
		_ = send(g.status, status{Failed: err.Error(), Gone: true, Code: startCode(err)})
		return ExitError
	}
	_ = send(g.status, status{Started: g.pid})
	g.watch()
	_ = send(g.status, status{Gone: true, Code: g.code})
	g.linger()
	return 0
}

func startCode(err error) int {
	if errors.Is(err, fs.ErrNotExist) {
		return ExitNotFound
	}
	return ExitNotExecutable
}

func (g *guardian) start() error {
	if err := becomeSubreaper(); err != nil {
		return err
	}
	files := []uintptr{0, 1, 2}
	for i := range g.order.Locks {
		files = append(files, uintptr(locksFD+i))
		syscall.CloseOnExec(locksFD + i) // this number; the command has its own
	}
	pid, err := syscall.ForkExec(g.order.Path, g.order.Args, &syscall.ProcAttr{
		Dir: g.order.Dir, Env: g.order.Env, Files: files, Sys: commandAttr(),
	})
	if err != nil {
		return fmt.Errorf("start %s: %w", g.order.Path, err)
	}
	g.pid = pid
	return nil
}

// watch returns when the command and all its descendants are gone.
func (g *guardian) watch() {
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	defer signal.Stop(children)
	for {
		g.act()
		if !g.reap() {
			return
		}
		timer := g.clock.Timer(g.wake())
		select {
		case m, ok := <-g.control:
			g.onMessage(m, ok)
		case <-children:
		case <-timer.C():
		}
		timer.Stop()
	}
}

// act does what is due.
func (g *guardian) act() {
	now := g.clock.Now()
	switch {
	case now >= g.killAt():
		g.killing = true
	case now >= g.order.Lease.End && !g.stopping:
		g.stop(syscall.SIGTERM, g.order.Lease.Deadline.Sub(now))
	case g.exited && !g.stopping:
		// Only those are left whom the command left behind.
		g.stop(syscall.SIGTERM, g.order.Grace)
	}
	if g.killing {
		g.signalAll(syscall.SIGKILL)
	}
}

// killAt is the earlier of the two ends: that of a stop and that of the lease.
func (g *guardian) killAt() election.Instant {
	at := g.order.Lease.killAt()
	if g.stopping {
		at = min(at, g.stopAt)
	}
	return at
}

func (g *guardian) wake() election.Instant {
	if g.killing {
		g.pause = min(max(killPause, 2*g.pause), killPauseMax)
		return g.clock.Now().Add(g.pause)
	}
	if g.stopping {
		return g.killAt()
	}
	return min(g.order.Lease.End, g.killAt())
}

func (g *guardian) onMessage(m message, ok bool) {
	switch {
	case !ok:
		// The supervisor is dead. A closed channel would be ready for ever.
		g.control, g.orphaned = nil, true
		g.stop(syscall.SIGTERM, g.order.Grace)
	case m.Lease != nil:
		if m.Lease.Deadline > g.order.Lease.Deadline {
			g.order.Lease = *m.Lease
		}
	case m.Stop != nil:
		g.stop(syscall.Signal(m.Stop.Signal), m.Stop.Grace)
	case m.Signal != 0 && !g.exited:
		_ = syscall.Kill(-g.pid, syscall.Signal(m.Signal))
	}
}

// stop tells everybody to end; SIGKILL follows after the grace. A later stop
// can only shorten it.
func (g *guardian) stop(how syscall.Signal, grace time.Duration) {
	at := g.clock.Now().Add(max(0, grace))
	if !g.stopping || at < g.stopAt {
		g.stopAt = at
	}
	g.stopping = true
	g.signalAll(how)
	g.signalAll(syscall.SIGCONT) // the stopped must wake up to hear it
}

// signalAll signals the command's process group and every other descendant.
func (g *guardian) signalAll(how syscall.Signal) {
	if !g.exited || groupLives(g.pid) {
		_ = syscall.Kill(-g.pid, how)
	}
	for _, process := range descendants(os.Getpid()) {
		if process.group != g.pid || g.exited {
			_ = syscall.Kill(process.pid, how)
		}
	}
}

// reap takes note of everybody who has ended, and returns false when there is
// nobody left: a subreaper without children has no descendants.
func (g *guardian) reap() bool {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return groupLives(g.pid)
		case pid == 0:
			return true
		case pid == g.pid:
			g.exited, g.code = true, exitCode(ws)
		}
	}
}

func exitCode(ws syscall.WaitStatus) int {
	if ws.Signaled() {
		return exitSignal + int(ws.Signal())
	}
	return ws.ExitStatus()
}

// linger waits for the supervisor to take note, so that it can give the
// election back in order. A supervisor that holds a lock file, is frozen and
// stays so would keep everybody else from leading for ever: it is killed.
func (g *guardian) linger() {
	if g.orphaned {
		return
	}
	patience := time.NewTimer(lingerMax)
	defer patience.Stop()
	for {
		select {
		case _, ok := <-g.control:
			if !ok {
				return
			}
		case <-patience.C:
			if g.order.Locks > 0 && os.Getppid() == g.parent {
				_ = syscall.Kill(g.parent, syscall.SIGKILL)
			}
			return
		}
	}
}

// lingerMax is how long a supervisor may take to notice the end of the command.
// It counts running time, so that a machine that was suspended kills nobody.
const lingerMax = 3 * time.Second
