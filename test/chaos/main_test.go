//go:build linux && chaos

package chaos

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/conclave-project/conclave/test/servers"
)

// insideVariable is set in the process that has mounts of its own.
const insideVariable = "CHAOS_INSIDE"

func TestMain(m *testing.M) {
	servers.Supervised()
	if os.Getenv(insideVariable) == "" {
		os.Exit(again())
	}
	os.Exit(m.Run())
}

// again runs this program once more, where it may mount file systems that
// nobody else sees and that go with it. It returns the exit code.
func again() int {
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		return 2
	}
	c := exec.Command(self, os.Args[1:]...)
	c.Env = append(os.Environ(), insideVariable+"=1")
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		c.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	runtime.LockOSThread() // the death signal follows the thread
	err = c.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return max(1, exit.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, "chaos: a namespace for mounts (user namespaces must be allowed, or be root):", err)
		return 2
	}
	return 0
}

// diskBytes is the size of a server's disk.
const diskBytes = 1 << 30

// mountDisk puts a small disk in memory at a directory.
func mountDisk(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	// What is mounted here is not to show outside.
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("chaos: make mounts private: %w", err)
	}
	if err := syscall.Mount("chaos", dir, "tmpfs", 0, fmt.Sprintf("size=%d", diskBytes)); err != nil {
		return fmt.Errorf("chaos: mount a disk at %s: %w", dir, err)
	}
	return nil
}

func unmountDisk(dir string) error { return syscall.Unmount(dir, 0) }

const ballastName = "ballast"

// fillDisk takes all room that a disk still has.
func fillDisk(dir string) error {
	f, err := os.Create(filepath.Join(dir, ballastName))
	if err != nil {
		return err
	}
	defer f.Close()
	block := []byte(strings.Repeat("x", 1<<20))
	for len(block) > 0 {
		_, err := f.Write(block)
		if errors.Is(err, syscall.ENOSPC) {
			block = block[:len(block)/2] // to the last byte
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func emptyDisk(dir string) error { return os.Remove(filepath.Join(dir, ballastName)) }
