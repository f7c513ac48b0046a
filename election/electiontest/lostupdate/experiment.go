//go:build unix

package lostupdate

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/conclave-project/conclave/internal/childtest"
)

// Experiment describes what to run.
type Experiment struct {
	// Command returns the command of one process that campaigns: id names it,
	// and registers is the address for Dial.
	Command func(id, registers string) *exec.Cmd
	// Lease is the lease of the candidates. Pauses last from 1.1 to 2.6 leases.
	Lease time.Duration
	// Length is the minimum duration; the experiment goes on, up to three times
	// as long, until the naive register has had UpdatesMin updates.
	Length     time.Duration
	UpdatesMin int

	every time.Duration // between two pauses; 0 means pauseEvery or three leases
}

const (
	processes  = 5
	pauseEvery = 5 * time.Second
	// leaderPercent is how often the stopped process is the leader; otherwise
	// it is any of the processes.
	leaderPercent = 80
	endWithin     = 20 * time.Second
)

// Run runs the experiment.
func (e Experiment) Run(ctx context.Context) (Result, error) {
	registers, err := Serve()
	if err != nil {
		return Result{}, err
	}
	defer registers.Close()
	t := &troop{}
	for i := range processes {
		if err := t.start(e.Command(fmt.Sprint("p", i), registers.Addr)); err != nil {
			return Result{}, errors.Join(err, t.kill())
		}
	}
	began := time.Now()
	pauses, err := e.pause(ctx, t, registers)
	if err == nil {
		err = t.end()
	}
	if err = errors.Join(err, t.kill()); err != nil {
		return Result{}, err
	}
	counts, err := registers.Judge()
	return Result{counts, t.elections(), pauses, began.UTC().Format(time.DateOnly), time.Since(began).Seconds(),
		e.Lease.Milliseconds()}, err
}

// pause stops processes until it is time to end.
func (e Experiment) pause(ctx context.Context, t *troop, registers *Server) (pauses int, err error) {
	every := cmp.Or(e.every, max(pauseEvery, 3*e.Lease))
	for began := time.Now(); ; pauses++ {
		passed := time.Since(began)
		if passed > e.Length && (registers.Updates(Naive) >= e.UpdatesMin || passed > 3*e.Length) {
			return pauses, nil
		}
		length := e.Lease*11/10 + rand.N(e.Lease*3/2)
		if err := sleep(ctx, every-length); err != nil {
			return pauses, err
		}
		victim := t.victim()
		if err := victim.Signal(syscall.SIGSTOP); err != nil {
			return pauses, fmt.Errorf("lostupdate: a process has ended: %w", err)
		}
		err := sleep(ctx, length)
		if err = errors.Join(err, victim.Signal(syscall.SIGCONT)); err != nil {
			return pauses, err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// troop is the processes of an experiment.
type troop struct {
	commands []*exec.Cmd
	inputs   []io.Closer
	ends     []func()
	reading  sync.WaitGroup

	mu      sync.Mutex
	leader  int
	elected int
}

// start starts one process and reads its output.
func (t *troop) start(command *exec.Cmd) error {
	command.Stderr = os.Stderr
	stdin, errIn := command.StdinPipe()
	stdout, errOut := command.StdoutPipe()
	end, err := childtest.Begin(command)
	if err := errors.Join(errIn, errOut, err); err != nil {
		return fmt.Errorf("lostupdate: %w", err)
	}
	t.ends = append(t.ends, end)
	number := len(t.commands)
	t.commands, t.inputs = append(t.commands, command), append(t.inputs, stdin)
	t.reading.Go(func() {
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "elected") {
				t.mu.Lock()
				t.leader = number
				t.elected++
				t.mu.Unlock()
			}
		}
	})
	return nil
}

func (t *troop) elections() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.elected
}

// victim returns the process to stop next.
func (t *troop) victim() *os.Process {
	t.mu.Lock()
	defer t.mu.Unlock()
	if rand.IntN(100) < leaderPercent {
		return t.commands[t.leader].Process
	}
	return t.commands[rand.IntN(len(t.commands))].Process
}

// end lets all processes end gracefully.
func (t *troop) end() error {
	for _, input := range t.inputs {
		input.Close()
	}
	ended := make(chan struct{})
	go func() {
		t.reading.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-time.After(endWithin):
		return fmt.Errorf("lostupdate: some process has not ended %v after its input", endWithin)
	}
}

// kill kills the processes that still run and waits for them.
func (t *troop) kill() error {
	var errs []error
	for i, command := range t.commands {
		_ = command.Process.Kill() // most have ended
		var exit *exec.ExitError
		if err := command.Wait(); err != nil && !(errors.As(err, &exit) && exit.ExitCode() < 0) {
			errs = append(errs, fmt.Errorf("lostupdate: process %d: %w", i, err))
		}
		t.ends[i]()
	}
	t.reading.Wait()
	return errors.Join(errs...)
}
