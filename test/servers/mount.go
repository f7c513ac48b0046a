//go:build linux

package servers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// insideVariable is set in the process that has its own mounts.
const insideVariable = "CONCLAVE_TEST_OWN_MOUNTS"

// OwnMounts runs this program again in a namespace where it may mount file systems that no
// other process sees and that end with it, and exits with its exit code; inside, it
// returns. Call it in TestMain, after Supervised. It needs root, or user namespaces.
func OwnMounts() {
	if os.Getenv(insideVariable) != "" {
		return
	}
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "servers:", err)
		os.Exit(2)
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
	runtime.LockOSThread() // the death signal depends on this thread
	err = c.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		os.Exit(max(1, exit.ExitCode()))
	case err != nil:
		fmt.Fprintln(os.Stderr, "servers: a namespace for mounts (user namespaces must be allowed, or be root):", err)
		os.Exit(2)
	}
	os.Exit(0)
}

// MountDisk mounts a disk of the given size, in memory, at a directory, which is created if
// necessary. The program must have called OwnMounts.
func MountDisk(dir string, bytes int64) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	// These mounts must not be visible outside.
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("servers: make mounts private: %w", err)
	}
	if err := syscall.Mount("conclave-test", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		return fmt.Errorf("servers: mount a disk at %s: %w", dir, err)
	}
	return nil
}

// UnmountDisk removes the disk with all its files.
func UnmountDisk(dir string) error { return syscall.Unmount(dir, 0) }

const ballastName = "ballast"

// FillDisk fills the remaining space of a disk, to the last byte.
func FillDisk(dir string) error {
	f, err := os.Create(filepath.Join(dir, ballastName))
	if err != nil {
		return err
	}
	defer f.Close()
	block := []byte(strings.Repeat("x", 1<<20))
	for len(block) > 0 {
		_, err := f.Write(block)
		if errors.Is(err, syscall.ENOSPC) {
			block = block[:len(block)/2]
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// EmptyDisk frees the space that FillDisk took.
func EmptyDisk(dir string) error { return os.Remove(filepath.Join(dir, ballastName)) }
