//go:build unix

package lostupdate

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// workerEnv makes this binary a worker without any lock. It holds the worker's
// token and the address of the registers.
const workerEnv = "CONCLAVE_LOSTUPDATE_WORKER"

func TestMain(m *testing.M) {
	text := os.Getenv(workerEnv)
	if text == "" {
		os.Exit(m.Run())
	}
	var token uint64
	var registers string
	_, _ = fmt.Sscan(text, &token, &registers)
	if err := unlocked(token, registers); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// unlocked leads until its input ends, at the same time as all others.
func unlocked(token uint64, registers string) error {
	w, err := Dial(registers)
	if err != nil {
		return err
	}
	var ended atomic.Bool
	go func() {
		for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		}
		ended.Store(true)
	}()
	fmt.Println("elected", token)
	for !ended.Load() {
		err := w.Lead(token, func() bool { return !ended.Load() })
		if errors.Is(err, ErrStale) {
			err = w.Lead(0, func() bool { return !ended.Load() }) // goes on where nothing is fenced
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// TestExperimentSeesWhatIsLostWithoutALock has five processes lead at once:
// only the fence admits just one of them.
func TestExperimentSeesWhatIsLostWithoutALock(t *testing.T) {
	result, err := Experiment{
		Command: func(id, registers string) *exec.Cmd {
			command := exec.Command(os.Args[0], "-test.run=^$")
			token := strings.TrimPrefix(id, "p")
			command.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s", workerEnv, token, registers))
			return command
		},
		Lease: 50 * time.Millisecond, Length: 500 * time.Millisecond, every: 150 * time.Millisecond, UpdatesMin: 100,
	}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if c := result.Registers[Naive]; c.Lost == 0 || c.Updates < 100 {
		t.Errorf("naive: %+v", c)
	}
	if c := result.Registers[Checked]; c.Lost == 0 {
		t.Errorf("checked, by a check that says yes: %+v", c)
	}
	if c := result.Registers[Fenced]; c.Lost != 0 || c.Updates == 0 || c.Refused == 0 {
		t.Errorf("fenced: %+v", c)
	}
	if result.Leaderships != processes || result.Pauses == 0 {
		t.Errorf("%d leaderships, %d pauses", result.Leaderships, result.Pauses)
	}
}

func TestExperimentWithProcessesThatEndIsAnError(t *testing.T) {
	_, err := Experiment{
		Command: func(string, string) *exec.Cmd { return exec.Command("false") },
		Lease:   10 * time.Millisecond, Length: 100 * time.Millisecond, every: 50 * time.Millisecond, UpdatesMin: 1,
	}.Run(t.Context())
	if err == nil {
		t.Error("no error")
	}
}
