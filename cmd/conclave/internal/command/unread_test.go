//go:build unix

package command_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/scripts"
	"github.com/conclave-project/conclave/election/supervise"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/childtest"
)

// TestRunEndsThoughNobodyReadsWhatItWrites gives the run a standard error that is a
// pipe, full from the beginning. When it is told to end, it ends with its command's
// code. When its leadership is given up, it ends with the code that says so.
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

// TestServeEndsThoughNobodyReadsItsLog tells a server to end that has served, and has one that
// cannot start end by itself: a service manager would otherwise wait for both.
func TestServeEndsThoughNobodyReadsItsLog(t *testing.T) {
	dir, port, log := t.TempDir(), strconv.Itoa(childtest.Ports(t, 1)), fullPipe(t)
	var servers [2]*exec.Cmd
	for i := range servers {
		servers[i] = conclave("serve", "--data-dir", dir, "--port", port, "--address", "127.0.0.1")
		servers[i].Stderr = log
	}
	childtest.Start(t, servers[0])
	awaittest.Until(t, "the directory is in use", func() bool {
		_, err := os.Stat(filepath.Join(dir, "version-2", "reserve")) // made when it serves
		return err == nil
	})
	childtest.Start(t, servers[1])
	ends(t, servers[1], 1)
	if err := servers[0].Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ends(t, servers[0], 0)
}

// ends waits until a server ends, and checks its exit code.
func ends(t *testing.T, server *exec.Cmd, code int) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(scripts.Patience):
		t.Fatal("the server does not end")
	}
	if got := server.ProcessState.ExitCode(); got != code {
		t.Errorf("exit code %d, expected %d", got, code)
	}
}

// TestServeEndsWhileItReadsItsDirectory: the snapshot is a pipe, so it is never read to its end.
func TestServeEndsWhileItReadsItsDirectory(t *testing.T) {
	dir := t.TempDir()
	snapshot := filepath.Join(dir, "version-2", "snapshot.5")
	if err := errors.Join(os.Mkdir(filepath.Dir(snapshot), 0o700), syscall.Mkfifo(snapshot, 0o600)); err != nil {
		t.Fatal(err)
	}
	server := conclave("serve", "--data-dir", dir, "--port", strconv.Itoa(childtest.Ports(t, 1)), "--address", "127.0.0.1")
	childtest.Start(t, server)
	written, err := os.OpenFile(snapshot, os.O_WRONLY, 0) // waits until the server opens it
	if err != nil {
		t.Fatal(err)
	}
	defer written.Close()
	if err := server.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ends(t, server, 0)
}

// TestElectEndsThoughNobodyReadsItsToken also checks that the election is free
// afterwards.
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

// conclave returns this binary as the command.
func conclave(args ...string) *exec.Cmd {
	command := exec.Command(os.Args[0], args...)
	command.Args[0] = "conclave"
	return command
}

// fullPipe returns the write end of a pipe that is full and that nobody reads.
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
