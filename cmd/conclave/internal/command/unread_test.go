//go:build unix

package command_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/scripts"
	"github.com/conclave-project/conclave/election/supervise"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/childtest"
)

// TestRunEndsThoughNobodyReadsWhatItWrites: its standard error is a pipe that is
// full from the beginning. Told to end, it ends with its command's code; when its
// leadership is given up, with the code that says so.
func TestRunEndsThoughNobodyReadsWhatItWrites(t *testing.T) {
	for name, one := range map[string]struct {
		end  func(run *exec.Cmd, store string) error
		code int
	}{
		"terminated": {func(run *exec.Cmd, _ string) error { return run.Process.Signal(syscall.SIGTERM) }, 128 + int(syscall.SIGTERM)},
		"resigned":   {func(_ *exec.Cmd, store string) error { return conclave("resign", "unread", "--store", store).Run() }, supervise.ExitLost},
	} {
		t.Run(name, func(t *testing.T) {
			store, up := "file://"+t.TempDir(), filepath.Join(t.TempDir(), "up")
			run := conclave("run", "unread", "--store", store, "--", "sh", "-c", ": >"+up+"; sleep 60")
			run.Stderr = fullPipe(t)
			childtest.Start(t, run)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = run.Wait()
			}()
			awaittest.Until(t, "the command runs", func() bool {
				_, err := os.Stat(up)
				return err == nil
			})
			if err := one.end(run, store); err != nil {
				t.Fatal(err)
			}
			select {
			case <-ended:
			case <-time.After(scripts.Patience):
				t.Fatal("the run does not end")
			}
			if code := run.ProcessState.ExitCode(); code != one.code {
				t.Errorf("exit code %d, expected %d", code, one.code)
			}
		})
	}
}

// TestElectEndsThoughNobodyReadsItsToken, and the election is free then.
func TestElectEndsThoughNobodyReadsItsToken(t *testing.T) {
	store := "file://" + t.TempDir()
	elect := conclave("elect", "unread", "--store", store)
	elect.Stdout = fullPipe(t)
	childtest.Start(t, elect)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = elect.Wait()
	}()
	for began := time.Now(); conclave("leader", "unread", "--store", store).Run() != nil; {
		if time.Since(began) > scripts.Patience {
			t.Fatal("nobody leads")
		}
	}
	_ = elect.Process.Signal(syscall.SIGTERM)
	select {
	case <-ended:
	case <-time.After(scripts.Patience):
		t.Fatal("it does not end")
	}
	if err := conclave("lock", "unread", "--store", store, "--", "true").Run(); err != nil {
		t.Errorf("the election is not free: %v", err)
	}
}

// conclave is this binary as the command.
func conclave(args ...string) *exec.Cmd {
	command := exec.Command(os.Args[0], args...)
	command.Args[0] = "conclave"
	return command
}

// fullPipe returns the end of a pipe that takes no more and that nobody reads.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = read.Close(), write.Close() })
	for {
		_ = write.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
		if _, err := write.WriteString("\n"); errors.Is(err, os.ErrDeadlineExceeded) {
			return write
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
