//go:build linux

package servers

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// A Disk makes the syncs of one server slow, or lets them fail: each fsync and fdatasync of
// the process waits until the Disk lets it through. The kernel asks the Disk by a seccomp
// filter with a listener, which needs no privileges and no change of the server. A Disk
// outlives the process: a member keeps its Disk over restarts.
//
// A program that uses it must call Supervised first thing in main or TestMain. It is safe
// for concurrent use.
type Disk struct {
	mu     sync.Mutex
	delay  time.Duration
	errno  syscall.Errno
	failed int // number of syncs that were made to fail
}

// Slow delays each sync by the given time, from the next one on.
func (d *Disk) Slow(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.delay = by
}

// Fail makes each sync fail with an error, such as syscall.EIO, without syncing anything. 0
// means no error.
func (d *Disk) Fail(errno syscall.Errno) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.errno = errno
}

// Failed returns how many syncs have failed so far.
func (d *Disk) Failed() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed
}

// Heal removes delay and error.
func (d *Disk) Heal() {
	d.Slow(0)
	d.Fail(0)
}

// verdict returns what happens to a sync that is requested now.
func (d *Disk) verdict() (time.Duration, syscall.Errno) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.errno != 0 {
		d.failed++
	}
	return d.delay, d.errno
}

// supervisedVariable tells a process to become a supervised server.
const supervisedVariable = "CONCLAVE_TEST_SUPERVISED"

// supervisedSocket is the file descriptor on which it hands over the listener.
const supervisedSocket = 3

// Supervised does nothing, unless this process was started to become a server with a Disk:
// then it executes the server, and does not return.
func Supervised() {
	if os.Getenv(supervisedVariable) == "" {
		return
	}
	runtime.LockOSThread() // the filter applies to this thread, which becomes the server
	err := supervise(os.Args[1:])
	fmt.Fprintln(os.Stderr, err)
	os.Exit(2)
}

// Constants of the kernel interface that package syscall lacks.
const (
	prSetNoNewPrivs       = 38
	seccompSetModeFilter  = 1
	seccompNewListener    = 1 << 3
	seccompReturnAllow    = 0x7fff0000
	seccompReturnListener = 0x7fc00000
	seccompContinue       = 1
	notificationReceive   = 0xc0502100
	notificationSend      = 0xc0182101
)

// seccompNumber is the system call seccomp by architecture.
var seccompNumber = map[string]uintptr{"amd64": 317, "arm64": 277}

// supervise installs the filter, hands over its listener and executes the server.
func supervise(args []string) error {
	number, ok := seccompNumber[runtime.GOARCH]
	if !ok {
		return fmt.Errorf("servers: a disk cannot be made slow on %s", runtime.GOARCH)
	}
	filter := []syscall.SockFilter{
		{Code: syscall.BPF_LD | syscall.BPF_W | syscall.BPF_ABS, K: 0}, // the system call's number
		{Code: syscall.BPF_JMP | syscall.BPF_JEQ | syscall.BPF_K, Jt: 1, K: syscall.SYS_FSYNC},
		{Code: syscall.BPF_JMP | syscall.BPF_JEQ | syscall.BPF_K, Jf: 1, K: syscall.SYS_FDATASYNC},
		{Code: syscall.BPF_RET | syscall.BPF_K, K: seccompReturnListener},
		{Code: syscall.BPF_RET | syscall.BPF_K, K: seccompReturnAllow},
	}
	program := syscall.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("servers: give up new privileges: %w", errno)
	}
	listener, _, errno := syscall.RawSyscall(number, seccompSetModeFilter, seccompNewListener, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return fmt.Errorf("servers: install a filter for syncs: %w", errno)
	}
	if err := syscall.Sendmsg(supervisedSocket, []byte{0}, syscall.UnixRights(int(listener)), nil, 0); err != nil {
		return fmt.Errorf("servers: hand the filter over: %w", err)
	}
	syscall.Close(supervisedSocket)
	if err := os.Unsetenv(supervisedVariable); err != nil {
		return err
	}
	return fmt.Errorf("servers: start %s: %w", args[0], syscall.Exec(args[0], args, os.Environ()))
}

// attach makes the disk supervise a command. The function that it returns must be called
// after the command was started, or failed to start.
func (d *Disk) attach(s *Server) (started func(error) error, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("servers: socket for a disk: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "disk"), os.NewFile(uintptr(pair[1]), "disk")
	program := s.command.Path
	s.command.Args = append([]string{self, program}, s.command.Args[1:]...)
	s.command.Path = self
	s.command.Env = append(s.command.Env, supervisedVariable+"=1")
	s.command.ExtraFiles = []*os.File{theirs}
	return func(startErr error) error {
		defer ours.Close()
		theirs.Close()
		if startErr != nil {
			return startErr
		}
		listener, err := receiveListener(ours)
		if err != nil {
			return err
		}
		go d.serve(listener)
		return nil
	}, nil
}

// receiveListener waits until the new process hands over its listener.
func receiveListener(socket *os.File) (int, error) {
	c, err := net.FileConn(socket)
	if err != nil {
		return 0, fmt.Errorf("servers: disk: %w", err)
	}
	defer c.Close()
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return 0, err
	}
	control := make([]byte, syscall.CmsgSpace(4))
	_, n, _, _, err := c.(*net.UnixConn).ReadMsgUnix(make([]byte, 1), control)
	if err != nil {
		return 0, fmt.Errorf("servers: disk: no listener came: %w", err)
	}
	messages, err := syscall.ParseSocketControlMessage(control[:n])
	if err != nil || len(messages) != 1 {
		return 0, fmt.Errorf("servers: disk: no listener came: %d messages, %v", len(messages), err)
	}
	fds, err := syscall.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return 0, fmt.Errorf("servers: disk: no listener came: %d files, %v", len(fds), err)
	}
	return fds[0], nil
}

// A notification is struct seccomp_notif, an answer struct seccomp_notif_resp.
type notification struct {
	id         uint64
	pid, flags uint32
	call       int32
	arch       uint32
	address    uint64
	args       [6]uint64
}

type answer struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

// serve answers the process's syncs until it has ended.
func (d *Disk) serve(listener int) {
	var answering sync.WaitGroup
	defer syscall.Close(listener)
	defer answering.Wait()
	for awaitNotification(listener) {
		var n notification
		if err := control(listener, notificationReceive, unsafe.Pointer(&n)); err != nil {
			if errors.Is(err, syscall.EINTR) || errors.Is(err, syscall.ENOENT) {
				continue // the requesting thread has ended
			}
			return
		}
		delay, errno := d.verdict()
		answering.Go(func() {
			time.Sleep(delay) // the disk is slow
			a := answer{id: n.id, errno: -int32(errno)}
			if errno == 0 {
				a.flags = seccompContinue
			}
			// This fails if the process has ended meanwhile.
			_ = control(listener, notificationSend, unsafe.Pointer(&a))
		})
	}
}

// awaitNotification waits for a sync; it returns false when the process has ended.
func awaitNotification(listener int) bool {
	const readable, ended = 0x1, 0x10 // POLLIN, POLLHUP
	for {
		poll := struct {
			fd              int32
			events, revents int16
		}{int32(listener), readable, 0}
		_, _, errno := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&poll)), 1, 0, 0, 0, 0)
		switch {
		case errno == syscall.EINTR:
		case errno != 0 || poll.revents&ended != 0:
			return false
		default:
			return true
		}
	}
}

func control(fd int, request uintptr, argument unsafe.Pointer) error {
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), request, uintptr(argument)); errno != 0 {
		return errno
	}
	return nil
}
