//go:build linux

package childtest

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/conclave-project/conclave/internal/awaittest"
)

// parentEnv makes this test binary a process that starts and stops (SIGSTOP)
// another process, and dies silently when its input ends.
const parentEnv = "CONCLAVE_CHILDTEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parentEnv) == "" {
		os.Exit(m.Run())
	}
	command := exec.Command("sleep", "3600")
	_, err := Begin(command)
	if err == nil {
		err = command.Process.Signal(syscall.SIGSTOP)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(command.Process.Pid)
	_, _ = os.Stdin.Read(make([]byte, 1))
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

// startStopped starts a process that does not end by itself, and stops it with
// SIGSTOP.
func startStopped(t testing.TB) *exec.Cmd {
	command := exec.Command("sleep", "3600")
	Start(t, command)
	if err := command.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	return command
}

// awaitGone waits until no process has the given number. A zombie counts as
// gone.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	awaittest.Until(t, fmt.Sprintf("process %d is gone", pid), func() bool {
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		var id int
		var name, letter string
		_, _ = fmt.Sscan(string(state), &id, &name, &letter)
		return errors.Is(err, os.ErrNotExist) || letter == "Z"
	})
}

func TestStoppedProcessEndsWithItsTest(t *testing.T) {
	var pid int
	t.Run("a test", func(t *testing.T) { pid = startStopped(t).Process.Pid })
	awaitGone(t, pid)
}

func TestStoppedProcessEndsWithTheProcessOfTheTest(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentEnv+"=1")
	stdin, errIn := parent.StdinPipe()
	stdout, errOut := parent.StdoutPipe()
	if errIn != nil || errOut != nil {
		t.Fatal(errIn, errOut)
	}
	Start(t, parent)
	var pid int
	if _, err := fmt.Fscan(bufio.NewReader(stdout), &pid); err != nil {
		t.Fatal(err)
	}
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, parent.Process.Pid)
	awaitGone(t, pid)
}

func TestProcessThatTheTestHasWaitedForIsNoConcern(t *testing.T) {
	command := exec.Command("true")
	Start(t, command)
	if err := command.Wait(); err != nil {
		t.Fatal(err)
	}
}
