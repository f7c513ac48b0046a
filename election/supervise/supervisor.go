//go:build unix

package supervise

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/conclave-project/conclave/election"
)

// signalsMax bounds the signals that wait. Further ones are dropped, as the kernel does
// too.
const signalsMax = 16

// remarksMax bounds the remarks that wait for a slow OnRemark; more are dropped.
const remarksMax = 16

// supervisor is one call of Run.
type supervisor struct {
	elector *election.Elector
	command Command
	path    string
	signals chan os.Signal
	remarks chan error // to the goroutine that calls OnRemark
	cancel  context.CancelCauseFunc

	code    int   // exit code of the last command
	stopped bool  // the last command ended because the run was to end
	givenUp error // why the last leadership ended before its command did; nil if it did not
	vain    error // why the last turn failed: no guardian or command could be started, or a hook failed
}

// errWaited ends a run that was not elected in time.
var errWaited = errors.New("not elected in time")

// stopError says which signal ended the run.
type stopError struct{ signal syscall.Signal }

func (e *stopError) Error() string { return "stopped by signal " + e.signal.String() }

func run(ctx context.Context, elector *election.Elector, command Command) (int, error) {
	if len(command.Args) == 0 {
		return ExitError, errors.New("supervise: no command given; put it after \"--\"")
	}
	path, err := lookup(command.Args[0])
	if err != nil {
		return startCode(err), fmt.Errorf("supervise: %w; give a program of PATH or its path", err)
	}
	if err := errors.Join(becomeSubreaper(), checkProc(procDir)); err != nil {
		return ExitError, fmt.Errorf("supervise: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &supervisor{elector: elector, command: command, path: path, cancel: cancel,
		signals: make(chan os.Signal, signalsMax), remarks: make(chan error, remarksMax)}
	defer s.tellRemarks()()
	// Catch and drop SIGPIPE, as the guardian does, instead of ignoring it: the standard
	// error may have no reader any more.
	notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	notify(s.signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT)
	defer signal.Stop(s.signals)
	defer startReaper()()
	defer func() { command.Health.pause() }() // and never resume it
	return s.result(s.campaign(ctx))
}

// notify is signal.Notify without the signals that this process was started to ignore (by
// nohup, or by a shell that runs it in the background of a script). It continues to ignore
// them, and so does what it starts. In Go a program can find this out only for SIGHUP and
// SIGINT.
func notify(to chan<- os.Signal, signals ...os.Signal) {
	for _, one := range signals {
		if !signal.Ignored(one) {
			signal.Notify(to, one)
		}
	}
}

// tellRemarks calls OnRemark in a goroutine of its own, so that a standard error without a
// reader does not delay anything. The returned function waits until all remarks are
// delivered.
func (s *supervisor) tellRemarks() (end func()) {
	told := make(chan struct{})
	go func() {
		defer close(told)
		for one := range s.remarks {
			s.command.OnRemark(one)
		}
	}()
	return func() {
		close(s.remarks)
		<-told
	}
}

// remark reports a failure; it is dropped if too many remarks are waiting.
func (s *supervisor) remark(err error) {
	select {
	case s.remarks <- err:
	default:
	}
}

// lookup finds the program as a shell does. Its error distinguishes "not found" from "not
// executable".
func lookup(name string) (string, error) {
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("command %q: %w", name, fs.ErrNotExist)
	}
	if err != nil {
		return "", fmt.Errorf("command %q: %w", name, err)
	}
	return filepath.Abs(path)
}

// signalAgain: a signal that arrives this long after the run began to end, when no command
// is left, counts as a second request to end. It ends the wait for the store. An earlier
// one may be a duplicate: timeout(1) sends each signal to the process and to its group.
const signalAgain = time.Second

// campaign runs the elector, and handles signals while this candidate does not lead.
func (s *supervisor) campaign(ctx context.Context) error {
	turns := make(chan *turn)
	ended := make(chan error, 1)
	lead := s.elector.Run
	if s.command.Try {
		lead = s.elector.Try
	}
	go func() {
		ended <- lead(ctx, func(ctx context.Context, lead election.Leadership) error {
			t := &turn{supervisor: s, ctx: ctx, lead: lead, done: make(chan error, 1)}
			turns <- t
			return <-t.done
		})
	}()
	patience := make(<-chan time.Time)
	if s.command.Wait > 0 {
		timer := time.NewTimer(s.command.Wait)
		defer timer.Stop()
		patience = timer.C
	}
	stopping, insists := ctx.Done(), make(<-chan time.Time)
	impatient := false // the next signal counts as a second one
	for {
		select {
		case t := <-turns:
			patience = nil
			if !errors.Is(context.Cause(ctx), errWaited) { // else it was elected too late, and Run reports that it was not
				t.run()
			}
			t.done <- nil
		case <-patience:
			s.cancel(errWaited)
		case <-stopping:
			stopping, insists = nil, time.After(signalAgain)
		case <-insists:
			impatient = true
		case one := <-s.signals:
			switch ends, how := endsRun(one, impatient); {
			case ends && impatient:
				return context.Cause(ctx) // no process of the command is left; the grant expires in the store
			case ends:
				s.cancel(&stopError{how})
			}
		case err := <-ended:
			return err
		}
	}
}

// endsRun reports whether a signal ends the run; while waiting, SIGHUP does too.
func endsRun(one os.Signal, leading bool) (bool, syscall.Signal) {
	how := one.(syscall.Signal)
	switch how {
	case syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT:
		return true, how
	case syscall.SIGHUP:
		return !leading, how
	}
	return false, how
}

// result turns the end of the run into an exit code.
func (s *supervisor) result(err error) (int, error) {
	var stopped *stopError
	var lost *election.LostError
	switch {
	case errors.Is(err, errWaited):
		return ExitWaited, fmt.Errorf("supervise: %w: others lead", err)
	case errors.Is(err, election.ErrHeld) && !errors.As(err, &stopped):
		return ExitWaited, err
	case errors.As(err, &lost):
		return ExitLost, err
	case err == nil && s.vain != nil:
		return s.code, fmt.Errorf("supervise: %w", s.vain)
	case err == nil && s.givenUp != nil:
		return ExitLost, s.givenUp
	case err == nil, s.stopped:
		return s.code, nil
	case errors.As(err, &stopped):
		return exitSignal + int(stopped.signal), nil
	default:
		return ExitError, err
	}
}

// ours are the variables that this package sets. If another run around this one has set
// them, the inherited values are removed: of two variables of the same name, many programs
// see the first.
var ours = []string{"CONCLAVE_TOKEN=", "CONCLAVE_ELECTION=", "CONCLAVE_ID=", "CONCLAVE_DEADLINE=",
	"CONCLAVE_EVENT=", "CONCLAVE_REASON="}

// environment returns the command's environment.
func (s *supervisor) environment(lead election.Leadership) []string {
	inherited := slices.DeleteFunc(slices.Clone(s.command.Env), func(one string) bool {
		return slices.ContainsFunc(ours, func(name string) bool { return strings.HasPrefix(one, name) })
	})
	return append(inherited,
		"CONCLAVE_TOKEN="+strconv.FormatUint(uint64(lead.Token()), 10),
		"CONCLAVE_ELECTION="+lead.Election(),
		"CONCLAVE_ID="+lead.ID(),
		fmt.Sprintf("CONCLAVE_DEADLINE=%.3f", time.Duration(lead.Deadline()).Seconds()))
}
