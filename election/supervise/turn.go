//go:build unix

package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
)

const (
	// forceAfter is how long after the grace the supervisor waits for the guardian to
	// report the end of the command, before it kills by itself.
	forceAfter = 500 * time.Millisecond
	// killPauseMax is the longest pause between two rounds of killing. The pause grows to
	// it if a process may not be killed or does not die.
	killPauseMax = 100 * time.Millisecond
)

// turn is one leadership, with its guardian and the command under it. The goroutine of
// campaign owns it.
type turn struct {
	supervisor *supervisor
	ctx        context.Context
	lead       election.Leadership
	done       chan error

	clock    clock.Clock
	guardian *exec.Cmd
	control  *os.File
	orders   chan message // to the goroutine that writes to the guardian
	writer   sync.WaitGroup
	page     page
	owed     *message // a stop that did not fit into orders
	reports  chan status
	group    int // the command's process group; 0 until it is started

	tickAt  clock.Instant // when the guardian is checked next
	pulse   int64         // the guardian's pulse at the last tick
	silence time.Duration // for how long the pulse has not changed, counted in ticks

	stopSignal syscall.Signal // the signal that ended the run; 0 for none
	stopping   bool
	cutShort   bool          // the leadership ended before the command
	forceAt    clock.Instant // valid when stopping
	begun      bool          // OnLost must run at the end
	losing     bool          // OnLost is running
	gone       bool
}

// run returns when no process of the command is left. If something could not be started,
// that ends the run only with Once: a descriptor, a process or the program may be missing
// only for a moment.
func (t *turn) run() {
	s := t.supervisor
	t.clock = clock.System()
	s.givenUp, s.vain = nil, nil
	if t.ctx.Err() != nil { // the leadership ended before anything was started
		if t.reason() != election.ReasonStopped {
			s.givenUp = t.lead.Err()
		}
		return
	}
	if err := t.startGuardian(); err != nil {
		t.inVain(ExitError, err)
		return
	}
	ended := t.ctx.Done()
	for !t.gone {
		timer := t.clock.Timer(t.wake())
		select {
		case report, ok := <-t.reports:
			t.onReport(report, ok)
		case one := <-s.signals:
			t.onSignal(one)
		case <-ended:
			ended, t.cutShort = nil, !t.losing
			if t.stopSignal == 0 {
				t.stop(syscall.SIGTERM)
			}
		case <-timer.C():
			t.onTime()
		}
		timer.Stop()
	}
	t.closeGuardian()
	t.noteEnd()
}

// noteEnd records whether the run was told to end; its exit code is then the command's. A
// signal says so before the leadership does, and the command may end in between.
func (t *turn) noteEnd() {
	s := t.supervisor
	s.stopped = (t.stopSignal != 0 || t.ctx.Err() != nil) && t.reason() == election.ReasonStopped
	if t.cutShort && !s.stopped {
		s.givenUp = t.lead.Err()
	}
}

// inVain records that the turn failed, and the exit code and error of the run if it was the
// last.
func (t *turn) inVain(code int, err error) {
	t.supervisor.code, t.supervisor.vain = code, err
	t.supervisor.remark(err)
}

func (t *turn) times() leaseTimes { return leaseTimes{t.lead.End(), t.lead.Deadline()} }

// startGuardian starts this executable again, with the pipes, the page and the lock files.
func (t *turn) startGuardian() error {
	s := t.supervisor
	self, err := ownProgram()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	controlSeen, controlSent, err1 := os.Pipe()
	statusSeen, statusSent, err2 := os.Pipe()
	if err := errors.Join(err1, err2); err != nil {
		for _, file := range []*os.File{controlSeen, controlSent, statusSeen, statusSent} {
			_ = file.Close() // also of a pipe that could not be made
		}
		return err
	}
	pageFile, shared, err := newPage()
	if err != nil {
		_, _, _, _ = controlSeen.Close(), controlSent.Close(), statusSeen.Close(), statusSent.Close()
		return err
	}
	t.page = shared
	t.page.set(t.times())
	locks := t.lead.Files()
	t.guardian = exec.Command(self)
	t.guardian.Args = []string{os.Args[0], GuardianArg}
	t.guardian.Stdin, t.guardian.Stdout, t.guardian.Stderr = s.command.Stdin, s.command.Stdout, s.command.Stderr
	t.guardian.ExtraFiles = append([]*os.File{controlSeen, statusSent, pageFile}, locks...)
	t.guardian.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = t.guardian.Start()
	_, _, _ = controlSeen.Close(), statusSent.Close(), pageFile.Close()
	t.control, t.reports, t.orders = controlSent, make(chan status, messagesMax), make(chan message, messagesMax)
	if err != nil {
		t.page.close()
		_, _ = controlSent.Close(), statusSeen.Close()
		return fmt.Errorf("start the guardian: %w", err)
	}
	go func() {
		receive(statusSeen, t.reports)
		_ = statusSeen.Close()
	}()
	t.writer.Go(t.writeOrders)
	t.order(message{Start: &startOrder{Version: linkVersion, Path: octets(s.path), Args: each[octets](s.command.Args),
		Env: each[octets](s.environment(t.lead)), Dir: octets(s.command.Dir), Locks: len(locks), Grace: s.command.Grace,
		Hooks: hooks{octets(s.command.OnElected), octets(s.command.OnLost), s.command.HookLimit}}})
	return nil
}

// writeOrders sends messages to the guardian, in a goroutine of its own: the pipe of a
// stopped guardian fills up, and the loop must still be able to kill in time. If a write
// fails, the guardian is dead, which the end of its own pipe reports.
func (t *turn) writeOrders() {
	tell := sender[message](t.control)
	for m := range t.orders {
		if tell(m) != nil {
			return
		}
	}
}

// order queues a message, and returns false if too many are waiting.
func (t *turn) order(m message) bool {
	select {
	case t.orders <- m:
		return true
	default:
		return false
	}
}

// tickEvery is how often the guardian is told the state of the lease. It depends on the
// lease that the store granted, which may be much shorter than the one asked for.
func (t *turn) tickEvery() time.Duration {
	return min(max(t.lead.Lease()/20, 5*time.Millisecond), time.Second)
}

// wake returns when to check the guardian next, or to kill because it did not end in time.
func (t *turn) wake() clock.Instant {
	if t.stopping {
		return min(t.tickAt, t.forceTime())
	}
	return t.tickAt
}

// forceTime returns when this process kills by itself: some time after the guardian should
// have done it, and before another candidate can get the lease.
func (t *turn) forceTime() clock.Instant {
	if t.losing {
		return t.forceAt // the command is gone, and the hook may use its time
	}
	lease := t.times()
	return min(t.forceAt, lease.Deadline.Add(-lease.Deadline.Sub(lease.End)/8))
}

func (t *turn) onTime() {
	if t.stopping && t.clock.Now() >= t.forceTime() {
		select {
		case report, ok := <-t.reports: // a report that has already arrived comes first
			t.onReport(report, ok)
		default:
			t.killAll()
		}
		return
	}
	if t.clock.Now() < t.tickAt {
		return
	}
	t.tickAt = t.clock.Now().Add(t.tickEvery())
	if t.page.set(t.times()) {
		t.order(message{Shorter: true})
	}
	if t.owed != nil && t.order(*t.owed) {
		t.owed = nil
	}
	t.takePulse()
}

// silenceMin is the shortest silence of a guardian that counts as one.
const silenceMin = 5 * time.Second

// takePulse continues a guardian that has been silent for two leases, because it may not
// have noticed the end of the command, and kills it after four. Time is counted in ticks,
// so none is missed while the machine is suspended.
func (t *turn) takePulse() {
	pulse := t.page.pulse.Load()
	if pulse != t.pulse {
		t.pulse, t.silence = pulse, 0
		return
	}
	before, limit := t.silence, max(2*t.lead.Lease(), silenceMin)
	t.silence += t.tickEvery()
	switch {
	case t.silence >= 2*limit:
		t.supervisor.remark(errors.New("the command's guardian does not run, the command is killed"))
		t.killAll()
	case t.silence >= limit && before < limit:
		t.supervisor.remark(errors.New("the command's guardian does not run, it is told to continue"))
		_ = t.guardian.Process.Signal(syscall.SIGCONT)
	}
}

func (t *turn) onReport(report status, ok bool) {
	s := t.supervisor
	switch {
	case !ok:
		// The guardian died before it reported that all processes are gone.
		t.killAll()
	case report.Failed != "":
		t.gone = true
		err := errors.New(report.Failed)
		if report.Hook {
			err = fmt.Errorf("%w %w", ErrOnElected, err)
		}
		t.inVain(report.Code, err)
	case report.Gone:
		s.code, t.gone = report.Code, true
	case report.Started != 0:
		t.group = report.Started
	case report.Begun:
		t.begun = true
	case report.Losing:
		t.losing, t.stopping = true, true
		t.forceAt = t.clock.Now().Add(s.command.HookLimit + forceAfter)
	case report.Remark != "":
		s.remark(errors.New(report.Remark))
	}
}

func (t *turn) onSignal(one os.Signal) {
	ends, how := endsRun(one, true)
	if !ends {
		t.order(message{Signal: int(how)}) // dropped if the guardian does not read
		return
	}
	t.stopSignal = how
	t.stop(how)
	t.supervisor.cancel(&stopError{how})
}

// stop tells the guardian to end the command. The command has the whole grace while the
// leadership holds. The guardian shortens it when the lease runs out, and there is no grace
// if the store has said that the leadership is gone.
func (t *turn) stop(how syscall.Signal) {
	grace := t.supervisor.command.Grace
	why := t.reason()
	switch why {
	case election.ReasonTaken: // another candidate may already lead
		grace = 0
	case election.ReasonExpired:
		lease := t.times()
		grace = min(grace, lease.Deadline.Sub(lease.End), max(0, lease.killAt().Sub(t.clock.Now())))
	}
	if at := t.clock.Now().Add(grace + forceAfter); !t.losing && (!t.stopping || at < t.forceAt) {
		t.forceAt = at
	}
	t.stopping = true
	t.owed = &message{Stop: &stopOrder{Signal: int(how), Grace: grace, Reason: why.String()}}
	if t.order(*t.owed) {
		t.owed = nil
	}
}

// reason says why the command is told to end.
func (t *turn) reason() election.Reason {
	err := t.lead.Err()
	var lost *election.LostError
	switch {
	case errors.As(err, &lost):
		return lost.Reason
	case errors.Is(err, election.ErrResigned):
		return election.ReasonResigned
	case errors.Is(err, election.ErrTransferred):
		return election.ReasonTransferred
	}
	return election.ReasonStopped
}

// killAll kills all descendants of this process, including the guardian, which did not do
// its work. It returns when all of them are gone.
//
// The guardian must be waited for first, because its orphans become children of this
// process only then: while some of its threads still have children, its pipe may already be
// closed, and it may look like a zombie. Once it is gone, no children means no descendants,
// as for every subreaper. /proc could not prove that, because it is not read at one
// instant.
func (t *turn) killAll() {
	s := t.supervisor
	t.killDescendants() // first, because a health check that cannot be killed must not delay this
	defer s.command.Health.pause()()
	t.killDescendants()
	_ = t.guardian.Process.Kill()
	_ = t.guardian.Wait()
	t.killOrphans()
	s.code = exitSignal + int(syscall.SIGKILL)
	if t.readReports(); !t.begun {
		t.inVain(s.code, errors.New("the command's guardian ended before it began"))
	}
	if t.begun && !t.losing && s.command.OnLost != "" {
		t.tellLost()
		t.killOrphans()
	}
	t.gone = true
}

// readReports evaluates what the guardian reported before it was killed: that OnLost must
// run, that it has begun, or that all processes are gone.
func (t *turn) readReports() {
	for report := range t.reports {
		t.begun = t.begun || report.Begun
		t.losing = t.losing || report.Losing
		if report.Gone {
			t.supervisor.code = report.Code
		}
	}
}

// killOrphans returns when this process has no descendants left.
func (t *turn) killOrphans() {
	for pause := killPause; reapChildren() || t.groupLives(); pause = min(2*pause, killPauseMax) {
		t.killDescendants()
		time.Sleep(pause)
	}
}

// tellLost runs OnLost in place of a guardian that died before it could.
func (t *turn) tellLost() {
	s := t.supervisor
	why := "killed"
	if t.lead.Err() != nil {
		why = t.reason().String()
	}
	hook := shellCommand{text: s.command.OnLost, dir: s.command.Dir, stdout: s.command.Stderr, stderr: s.command.Stderr,
		env: append(s.environment(t.lead), "CONCLAVE_EVENT=lost", "CONCLAVE_REASON="+why)}
	ctx, cancel := context.WithTimeout(context.Background(), s.command.HookLimit)
	defer cancel()
	if err := hook.run(ctx); err != nil {
		s.remark(fmt.Errorf("on-lost: %w", err))
	}
}

func (t *turn) killDescendants() {
	if t.groupLives() {
		_ = syscall.Kill(-t.group, syscall.SIGKILL)
	}
	for _, one := range descendants(os.Getpid()) {
		one.signal(syscall.SIGKILL)
	}
}

func (t *turn) groupLives() bool { return t.group != 0 && groupLives(t.group) }

// reapChildren collects the children that have ended, and returns false when none is left.
func reapChildren() bool {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return false
		case pid == 0:
			return true
		}
	}
}

// closeGuardian ends the guardian, which has no descendants left and nothing more to do. It
// kills it, because a stopped guardian would otherwise hold the lock file of the election.
func (t *turn) closeGuardian() {
	close(t.orders)
	_ = t.control.Close() // ends a write that is blocked
	t.writer.Wait()
	_ = t.guardian.Process.Kill()
	_ = t.guardian.Wait() // both fail if killAll has already waited
	t.page.close()
}
