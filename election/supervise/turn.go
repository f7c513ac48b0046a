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
	// forceAfter is how long after the grace a guardian may take to report the
	// end of the command before the supervisor kills by itself.
	forceAfter = 500 * time.Millisecond
	// killPauseMax is to what the pause between rounds of killing grows, when
	// there is somebody who may not be killed or does not die.
	killPauseMax = 100 * time.Millisecond
)

// turn is one leadership: a guardian, and the command under it. The goroutine
// of campaign owns it.
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
	owed     *message // a stop that found orders full
	reports  chan status
	group    int // the command's process group, 0 until it was started

	tickAt  clock.Instant // when the guardian is looked after next
	pulse   int64         // of the guardian, as of the last tick
	silence time.Duration // for which it has not changed, by ticks

	stopSignal syscall.Signal // by which the run was ended, 0 for none
	stopping   bool
	cutShort   bool          // the leadership ended before the command
	forceAt    clock.Instant // valid when stopping
	begun      bool          // the hook is to learn of the end
	losing     bool          // and does
	gone       bool
}

// run returns when nothing of the command lives any more. What it could not start ends
// the run only with Once: a descriptor, a process or the program may be lacking for a
// moment.
func (t *turn) run() {
	s := t.supervisor
	t.clock = clock.System()
	s.givenUp, s.vain = nil, nil
	if t.ctx.Err() != nil { // ended before it began: nothing was started
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

// noteEnd notes whether the run was told to end, so that its exit code is the command's. A signal
// tells it so, and the leadership a little later: the command may be faster.
func (t *turn) noteEnd() {
	s := t.supervisor
	s.stopped = (t.stopSignal != 0 || t.ctx.Err() != nil) && t.reason() == election.ReasonStopped
	if t.cutShort && !s.stopped {
		s.givenUp = t.lead.Err()
	}
}

// inVain notes that the turn came to nothing, and how the run ends if it was the last.
func (t *turn) inVain(code int, err error) {
	t.supervisor.code, t.supervisor.vain = code, err
	t.supervisor.remark(err)
}

func (t *turn) times() leaseTimes { return leaseTimes{t.lead.End(), t.lead.Deadline()} }

// startGuardian starts this executable again with the pipes and the locks.
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
			_ = file.Close() // of one that could not be made, too
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
	t.order(message{Start: &startOrder{Version: linkVersion, Path: s.path, Args: s.command.Args, Env: s.environment(t.lead),
		Dir: s.command.Dir, Locks: len(locks), Grace: s.command.Grace,
		Hooks: hooks{s.command.OnElected, s.command.OnLost, s.command.HookLimit}}})
	return nil
}

// writeOrders tells the guardian, in a goroutine of its own: a guardian that is
// stopped lets its pipe fill, and the loop must be able to kill in time. One
// that cannot be told is dead, and the end of its pipe says so.
func (t *turn) writeOrders() {
	tell := sender[message](t.control)
	for m := range t.orders {
		if tell(m) != nil {
			return
		}
	}
}

// order hands a message on, and returns false when too many wait already.
func (t *turn) order(m message) bool {
	select {
	case t.orders <- m:
		return true
	default:
		return false
	}
}

// tickEvery is how often the guardian is to know of the lease. What counts is the
// lease that the store gave, which may be much shorter than the one asked for.
func (t *turn) tickEvery() time.Duration {
	return min(max(t.lead.Lease()/20, 5*time.Millisecond), time.Second)
}

// wake is when the guardian is looked after, or when the patience with it is over.
func (t *turn) wake() clock.Instant {
	if t.stopping {
		return min(t.tickAt, t.forceTime())
	}
	return t.tickAt
}

// forceTime is when this process kills by itself: some time after the guardian
// should have, and before the lease can pass to another.
func (t *turn) forceTime() clock.Instant {
	if t.losing {
		return t.forceAt // the command is gone, the hook may take its time
	}
	lease := t.times()
	return min(t.forceAt, lease.Deadline.Add(-lease.Deadline.Sub(lease.End)/8))
}

func (t *turn) onTime() {
	if t.stopping && t.clock.Now() >= t.forceTime() {
		select {
		case report, ok := <-t.reports: // what it has said already comes first
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

// silenceMin is the shortest silence of a guardian that counts.
const silenceMin = 5 * time.Second

// takePulse continues a guardian that has been stopped for two leases, which may
// not have noticed the end of the command, and kills one that does not run then
// either. The time is that of ticks: while all is suspended, none is missed.
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
		// The guardian died without having said that all are gone.
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
		t.order(message{Signal: int(how)}) // a guardian that reads nothing misses it
		return
	}
	t.stopSignal = how
	t.stop(how)
	t.supervisor.cancel(&stopError{how})
}

// stop tells the guardian to end the command. The whole grace is given while
// the leadership holds; the guardian cuts it short when the lease runs out, and there is
// none once the store has said that the leadership is gone.
func (t *turn) stop(how syscall.Signal) {
	grace := t.supervisor.command.Grace
	why := t.reason()
	switch why {
	case election.ReasonTaken: // another may lead already
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

// killAll kills everything below this process, guardian included: it did not
// do its work. It does not return before all are gone.
//
// The guardian is waited for first, because only then are its orphans children
// of this process: it closes its pipe, and may even look like a zombie, while
// some of its threads still have children. After that, no children means no
// descendants, as for every subreaper. A look at /proc could not say so, for it
// is not taken at one instant.
func (t *turn) killAll() {
	s := t.supervisor
	t.killDescendants() // first: a health check that cannot be killed must not hold this up
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

// readReports takes note of what the guardian had said before it was killed: that
// the hook had begun, or that all was over.
func (t *turn) readReports() {
	for report := range t.reports {
		t.begun = t.begun || report.Begun
		t.losing = t.losing || report.Losing
		if report.Gone {
			t.supervisor.code = report.Code
		}
	}
}

// killOrphans returns when this process has no descendants any more.
func (t *turn) killOrphans() {
	for pause := killPause; reapChildren() || t.groupLives(); pause = min(2*pause, killPauseMax) {
		t.killDescendants()
		time.Sleep(pause)
	}
}

// tellLost runs the hook in place of a guardian that died before it could.
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

// reapChildren takes note of children that have ended, and returns false when
// there are none left.
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

// closeGuardian ends the guardian, which has no descendants left and nothing more
// to do. It may be stopped, and must not keep the election then.
func (t *turn) closeGuardian() {
	close(t.orders)
	_ = t.control.Close() // ends a write that waits
	t.writer.Wait()
	_ = t.guardian.Process.Kill()
	_ = t.guardian.Wait() // both fail when killAll has waited already
	t.page.close()
}
