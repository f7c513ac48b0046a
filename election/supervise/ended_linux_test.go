package supervise

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// asked is a store on which an operator was faster than Acquire: the grant already contains the
// request to resign.
type asked struct{ losing }

func (a asked) Acquire(ctx context.Context, c election.Claim) (election.Grant, error) {
	grant, err := a.losing.Acquire(ctx, c)
	grant.Request = &election.Request{Token: 1, By: "operator", ID: "1"}
	return grant, err
}

// here runs a command from the test's own process, and makes sure that it does not adopt the
// orphans of later tests.
func here(t *testing.T, e *election.Elector, c Command) (int, error) {
	t.Cleanup(func() {
		if _, _, errno := syscall.Syscall(syscall.SYS_PRCTL, prSetChildSubreaper, 0, 0); errno != 0 {
			t.Error(errno)
		}
	})
	return Run(t.Context(), e, c)
}

// `conclave lock migrations -- ./migrate && deploy` must not deploy.
func TestCommandThatWasNeverStartedIsNoSuccess(t *testing.T) {
	ran := filepath.Join(t.TempDir(), "ran")
	e, err := election.New(asked{}, "migrations", election.Options{Once: true, ID: "a", Lease: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	code, err := here(t, e, Command{Args: []string{"/bin/sh", "-c", ": >" + ran}})
	_, started := os.Stat(ran)
	if started == nil || code != ExitLost || !errors.Is(err, election.ErrResigned) {
		t.Errorf("started: %v, code %d, %v; want nothing started, %d, %v", started == nil, code, err, ExitLost, election.ErrResigned)
	}
}

// The exit code of a hook that was told to end is not the command's exit code.
func TestSignalDuringTheHookIsNoSuccess(t *testing.T) {
	dir := t.TempDir()
	ran, hook := filepath.Join(dir, "ran"), filepath.Join(dir, "hook")
	e, err := election.New(losing{}, "jobs", election.Options{Once: true, ID: "a", Lease: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		awaittest.Until(t, "the hook runs", func() bool { _, err := os.Stat(hook); return err == nil })
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
	}()
	code, err := here(t, e, Command{Args: []string{"/bin/sh", "-c", ": >" + ran},
		OnElected: "trap 'exit 0' TERM; : >" + hook + "; sleep 5 & wait"})
	if _, started := os.Stat(ran); started == nil || code != exitSignal+int(syscall.SIGTERM) {
		t.Errorf("code %d, %v, started: %v; want %d, and no command", code, err, started == nil, exitSignal+int(syscall.SIGTERM))
	}
}

// unseen is a context that ends without waking anybody who waits for it.
type unseen struct {
	context.Context
	over atomic.Bool
}

func (u *unseen) Err() error {
	if u.over.Load() {
		return errWaited
	}
	return nil
}

// The candidate is elected just as the wait for that ends: the exit code will be that of a lock
// that was not acquired, and a caller that gets it tries again.
func TestCommandIsNotStartedOnceTheWaitIsOver(t *testing.T) {
	ran := filepath.Join(t.TempDir(), "ran")
	ctx := &unseen{Context: t.Context()}
	e, err := election.New(losing{}, "migrations", election.Options{Once: true, ID: "a", Lease: 20 * time.Second,
		OnEvent: func(event election.Event) {
			if event.Kind == election.EventElected {
				ctx.over.Store(true)
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	s := &supervisor{elector: e, path: "/bin/sh", signals: make(chan os.Signal), remarks: make(chan error, remarksMax),
		command: Command{Args: []string{"sh", "-c", ": >" + ran}, Env: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout,
			Stderr: os.Stderr, Grace: GraceDefault, HookLimit: HookLimitDefault}}
	if err := s.campaign(ctx); !errors.Is(err, errWaited) {
		t.Error(err)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("the command has run")
	}
}

// A command that ignores SIGTERM no longer acts once the store has said that another candidate
// leads.
func TestCommandOfATakenLeadershipIsKilledAtOnce(t *testing.T) {
	acts := filepath.Join(t.TempDir(), "acts")
	store := losing{make(chan struct{})}
	e, err := election.New(store, "jobs", election.Options{Once: true, ID: "a", Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	lines := func() int {
		text, _ := os.ReadFile(acts)
		return strings.Count(string(text), "\n")
	}
	before := 0
	go func() {
		awaittest.Until(t, "it acts", func() bool { return lines() > 0 })
		before = lines()
		close(store.lost)
	}()
	code, err := here(t, e, Command{Args: []string{"/bin/sh", "-c",
		"trap '' TERM; while :; do echo >> " + acts + "; sleep 0.1; done"}})
	// A fifth of the lease would be 120 lines; the margin is for a busy machine.
	if acted := lines() - before; acted > 60 || code != ExitLost {
		t.Errorf("code %d, %v; it acted %d times after the store had said that another leads", code, err, acted)
	}
}
