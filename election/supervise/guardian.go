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

	"github.com/conclave-project/conclave/clock"
)

// File descriptors that the supervisor gives to the guardian.
const (
	controlFD = 3
	statusFD  = 4
	pageFD    = 5
	locksFD   = 6
)

const (
	// killPause is the pause between two rounds of killing. It gives the kernel time to end
	// the killed processes and to make their children ours.
	killPause = 2 * time.Millisecond
	// pulseEvery is the longest time between two pulses that show that the guardian runs.
	pulseEvery = time.Second
	// messagesMax bounds the messages that wait for the guardian, which reads them at once.
	messagesMax = 16
)

// guardian starts the hooks and the command, one after the other, and makes sure that each
// of them ends. One goroutine owns it.
type guardian struct {
	clock    clock.Clock
	alarm    alarm // continues this process if it is stopped
	control  chan message
	say      func(status) error
	parent   int
	order    startOrder
	page     page   // until when the leadership is proved to hold
	orphaned bool   // the supervisor has gone
	reason   string // why the leadership ends; "" while it lasts

	task task
}

// task is the hook or the command that runs now.
type task struct {
	pid    int
	code   int
	exited bool
	// leased: the task ends with the leadership and must not outlive it.
	leased bool
	// limited: the task is killed at limit.
	limited bool
	limit   clock.Instant
	overran bool // it still ran when the limit came

	stopping bool
	stopAt   clock.Instant // when SIGKILL follows a stop; valid when stopping
	killing  bool
	pause    time.Duration // until the next round of killing
}

// Guardian runs a guardian process from start to end. It returns the exit code.
func Guardian() int {
	// The command's parent-death signal is sent when the thread that started the command
	// ends, so this goroutine keeps its thread.
	runtime.LockOSThread()
	parent := os.Getppid()
	g := &guardian{clock: clock.System(), control: make(chan message, messagesMax),
		say: sender[status](os.NewFile(statusFD, "status")), parent: parent}
	syscall.CloseOnExec(controlFD)
	syscall.CloseOnExec(statusFD)
	syscall.CloseOnExec(pageFD)
	// Catch and drop these signals: the command would inherit ignored ones.
	notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP,
		syscall.SIGQUIT, syscall.SIGPIPE, syscall.SIGTSTP)
	shared, err := openPage(os.NewFile(pageFD, "lease"))
	if err != nil {
		g.tell(status{Failed: err.Error(), Gone: true, Code: ExitError})
		return ExitError
	}
	g.page = shared
	go receive(os.NewFile(controlFD, "control"), g.control)
	first, ok := <-g.control
	if !ok || first.Start == nil {
		return ExitError
	}
	if first.Start.Version != linkVersion {
		g.tell(status{Failed: "another version of this program stands at its path, start the candidate again", Gone: true, Code: ExitError})
		return ExitError
	}
	g.order = *first.Start
	if g.alarm, err = newAlarm(); err != nil {
		g.tell(status{Remark: err.Error() + ": a guardian that is stopped is continued only by this process"})
	}
	for i := range g.order.Locks {
		syscall.CloseOnExec(locksFD + i) // only this descriptor: a started program gets its own copy
	}
	if err := becomeSubreaper(); err != nil {
		g.tell(status{Failed: err.Error(), Gone: true, Code: ExitError})
		return ExitError
	}
	g.tell(g.lead())
	g.awaitSupervisor()
	return 0
}

// tell reports to the supervisor. An error means that the supervisor is gone; control says
// so too.
func (g *guardian) tell(s status) { _ = g.say(s) }

// lead runs the hooks and the command, and returns the status to report when all of them
// have ended.
func (g *guardian) lead() status {
	if g.over() {
		return notStarted
	}
	g.tell(status{Begun: true})
	last := g.hold()
	g.lastCall()
	return last
}

// hold runs the OnElected hook and then the command.
func (g *guardian) hold() status {
	if g.order.Hooks.Elected != "" {
		if err := g.run(g.hookTask(true), shell(string(g.order.Hooks.Elected)), g.env("CONCLAVE_EVENT=elected")); err != nil {
			g.end("returned")
			return status{Gone: true, Code: ExitError, Failed: err.Error(), Hook: true}
		}
		if g.reason != "" {
			return notStarted // told to end before there was a command
		}
		if err := g.task.failure(g.order.Hooks.Limit); err != nil {
			g.end("returned")
			return status{Gone: true, Code: ExitError, Failed: err.Error(), Hook: true}
		}
		if g.over() {
			return notStarted
		}
	}
	err := g.run(task{leased: true}, program{string(g.order.Path), each[string](g.order.Args)}, g.env())
	g.end("returned")
	if err != nil {
		return status{Gone: true, Code: startCode(err), Failed: err.Error()}
	}
	return status{Gone: true, Code: g.task.code}
}

// notStarted is reported when the leadership was over before the command began.
var notStarted = status{Gone: true, Code: exitSignal + int(syscall.SIGTERM)}

// over reports whether the leadership is already over, because this process was slow to
// start or was stopped. No task runs yet, so there is nothing to end.
func (g *guardian) over() bool {
	g.task = task{exited: true}
	g.takeMessages()
	if g.clock.Now() >= g.page.get().End {
		g.end("expired")
	}
	return g.reason != ""
}

// lastCall runs the OnLost hook after the command has gone. The hook may run longer than
// the leadership, which may already be over.
func (g *guardian) lastCall() {
	if g.order.Hooks.Lost == "" {
		return
	}
	g.tell(status{Losing: true})
	err := g.run(g.hookTask(false), shell(string(g.order.Hooks.Lost)), g.env("CONCLAVE_EVENT=lost", "CONCLAVE_REASON="+g.reason))
	if err == nil {
		err = g.task.failure(g.order.Hooks.Limit)
	}
	if err != nil {
		g.tell(status{Remark: "on-lost " + err.Error()})
	}
}

// end records why the leadership ends; the first reason stays.
func (g *guardian) end(reason string) {
	if g.reason == "" {
		g.reason = reason
	}
}

// env returns the environment of the command, with more variables added.
func (g *guardian) env(more ...string) []string { return append(each[string](g.order.Env), more...) }

func startCode(err error) int {
	if errors.Is(err, fs.ErrNotExist) {
		return ExitNotFound
	}
	return ExitNotExecutable
}

// program is a program to start, with its arguments.
type program struct {
	path string
	args []string
}

func shell(command string) program { return program{"/bin/sh", []string{"sh", "-c", command}} }

func (g *guardian) hookTask(leased bool) task {
	return task{leased: leased, limited: true, limit: g.clock.Now().Add(g.order.Hooks.Limit)}
}

// failure returns an error if the task did not end by itself with code 0.
func (t *task) failure(limit time.Duration) error {
	switch {
	case t.overran:
		return fmt.Errorf("was killed after %v", limit)
	case t.code != 0:
		return fmt.Errorf("ended with code %d", t.code)
	}
	return nil
}

// run starts a program and returns when the program and all its descendants are gone.
func (g *guardian) run(as task, p program, env []string) error {
	g.task = as
	g.setAlarm(g.wake())
	if err := g.start(p, env); err != nil {
		return err
	}
	g.tell(status{Started: g.task.pid})
	g.watch()
	return nil
}

func (g *guardian) start(p program, env []string) error {
	in, out := uintptr(0), uintptr(1)
	if g.task.limited {
		// This is a hook: the standard input and output belong to the command.
		null, err := os.Open(os.DevNull)
		if err != nil {
			return fmt.Errorf("start a hook: %w", err)
		}
		defer func() { _ = null.Close() }()
		in, out = null.Fd(), 2
	}
	files := []uintptr{in, out, 2}
	for i := range g.order.Locks {
		files = append(files, uintptr(locksFD+i))
	}
	pid, err := syscall.ForkExec(p.path, p.args, &syscall.ProcAttr{
		Dir: string(g.order.Dir), Env: env, Files: files, Sys: commandAttr(),
	})
	if err != nil {
		return fmt.Errorf("start %s: %w", p.path, err)
	}
	g.task.pid = pid
	return nil
}

// watch returns when the task and all its descendants are gone.
func (g *guardian) watch() {
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	defer signal.Stop(children)
	for {
		g.page.pulse.Add(1)
		g.takeMessages()
		g.act()
		if !g.reap() {
			return
		}
		wake := g.wake()
		g.setAlarm(wake)
		timer := g.clock.Timer(wake)
		select {
		case m, ok := <-g.control:
			g.onMessage(m, ok)
		case <-children:
		case <-timer.C():
		}
		timer.Stop()
	}
}

// takeMessages handles the messages that are already waiting. What the supervisor said
// takes precedence over the clock, even if the guardian was stopped for a while.
func (g *guardian) takeMessages() {
	for {
		select {
		case m, ok := <-g.control:
			g.onMessage(m, ok)
		default:
			return
		}
	}
}

// act does what is due now: it stops or kills the task.
func (g *guardian) act() {
	now, lease := g.clock.Now(), g.page.get()
	t := &g.task
	if t.limited && now >= t.limit && !t.exited {
		t.overran = true
	}
	over := t.leased && now >= lease.End && !t.stopping
	if over {
		g.end("expired") // the reason holds even if this process was delayed until it must kill the command
	}
	switch {
	case now >= g.killAt(lease):
		t.killing = true
	case over:
		g.stop(syscall.SIGTERM, lease.Deadline.Sub(now))
	case t.exited && !t.stopping:
		// Only processes that the task left behind still run.
		g.stop(syscall.SIGTERM, g.order.Grace)
	}
	if t.killing {
		g.signalAll(syscall.SIGKILL)
	}
}

// farFuture is later than any end.
const farFuture = clock.Instant(1<<63 - 1)

// killAt returns the earliest time at which to kill: after a stop, at the end of the lease,
// or at the limit of a hook.
func (g *guardian) killAt(lease leaseTimes) clock.Instant {
	at := farFuture
	if g.task.leased {
		at = lease.killAt()
	}
	if g.task.limited {
		at = min(at, g.task.limit)
	}
	if g.task.stopping {
		at = min(at, g.task.stopAt)
	}
	return at
}

func (g *guardian) wake() clock.Instant {
	t := &g.task
	if t.killing {
		t.pause = min(max(killPause, 2*t.pause), killPauseMax)
		return g.clock.Now().Add(t.pause)
	}
	lease := g.page.get()
	at := min(g.clock.Now().Add(pulseEvery), g.killAt(lease))
	if t.stopping || !t.leased {
		return at
	}
	return min(at, lease.End)
}

// setAlarm sets the kernel timer to some time after this process should have woken. While
// the process runs, the timer does not go off. The delay, an eighth of the grace (as in the
// supervisor), leaves time to kill.
func (g *guardian) setAlarm(wake clock.Instant) {
	lease := g.page.get()
	late := min(max(0, lease.Deadline.Sub(lease.End)/8), pulseEvery)
	g.alarm.after(wake.Add(late).Sub(g.clock.Now()))
}

func (g *guardian) onMessage(m message, ok bool) {
	switch {
	case !ok:
		// The supervisor is dead. Set control to nil: a closed channel is always ready.
		g.control, g.orphaned = nil, true
		g.end("killed")
		if g.task.leased {
			g.stop(syscall.SIGTERM, g.order.Grace)
		}
	case m.Stop != nil:
		g.end(m.Stop.Reason)
		if g.task.leased {
			g.stop(syscall.Signal(m.Stop.Signal), m.Stop.Grace)
		}
	case m.Signal != 0 && !g.task.limited && !g.task.exited:
		_ = syscall.Kill(-g.task.pid, syscall.Signal(m.Signal))
	}
}

// stop tells all processes of the task to end; SIGKILL follows after the grace. A later
// stop can only shorten that time.
func (g *guardian) stop(how syscall.Signal, grace time.Duration) {
	at := g.clock.Now().Add(max(0, grace))
	if !g.task.stopping || at < g.task.stopAt {
		g.task.stopAt = at
	}
	g.task.stopping = true
	g.signalAll(how)
	g.signalAll(syscall.SIGCONT) // a stopped process must continue to receive the signal
}

// signalAll signals the task's process group and every other descendant.
func (g *guardian) signalAll(how syscall.Signal) {
	t := &g.task
	if !t.exited || groupLives(t.pid) {
		_ = syscall.Kill(-t.pid, how)
	}
	for _, process := range descendants(os.Getpid()) {
		if process.group != t.pid || t.exited {
			process.signal(how)
		}
	}
}

// reap collects the processes that have ended, and returns false when none is left: a
// subreaper without children has no descendants.
func (g *guardian) reap() bool {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return groupLives(g.task.pid)
		case pid == 0:
			return true
		case pid == g.task.pid:
			g.task.exited, g.task.code = true, exitCode(ws)
		}
	}
}

func exitCode(ws syscall.WaitStatus) int {
	if ws.Signaled() {
		return exitSignal + int(ws.Signal())
	}
	return ws.ExitStatus()
}

// awaitSupervisor waits until the supervisor knows that the command has ended, so that it
// can release the election in order. A supervisor that holds a lock file and stays frozen
// would prevent everyone else from leading for ever, so it is killed.
func (g *guardian) awaitSupervisor() {
	if g.orphaned {
		return
	}
	pause := time.NewTicker(waitMax / 10)
	defer pause.Stop()
	for waited := time.Duration(0); !overdue(waited, isStopped(g.parent)); {
		g.alarm.after(waitMax)
		select {
		case _, ok := <-g.control:
			if !ok {
				return
			}
		case <-pause.C:
			waited += waitMax / 10
		}
	}
	if g.order.Locks > 0 && os.Getppid() == g.parent {
		_ = syscall.Kill(g.parent, syscall.SIGKILL)
	}
}

// How long a supervisor may take to notice the end of the command: waitMax if it is
// stopped, waitSlowMax if it runs, because it may only be slow on a busy machine. Only
// running time counts, so a machine that was suspended kills nothing.
const (
	waitMax     = 3 * time.Second
	waitSlowMax = 10 * waitMax
)

// overdue reports whether the supervisor has used up its time.
func overdue(waited time.Duration, stopped bool) bool {
	return waited >= waitSlowMax || stopped && waited >= waitMax
}
