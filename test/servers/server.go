//go:build linux

package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/conclave-project/conclave/internal/childtest"
)

const (
	defaultStartWithin = 30 * time.Second

	// pollWithin limits one question to a server that is starting: Apache occasionally
	// accepts a connection and forgets it.
	pollWithin = 300 * time.Millisecond

	// stopWithin is how long SIGTERM may take before SIGKILL follows.
	stopWithin = 10 * time.Second

	// ticksPerSecond is the unit of CPU times in /proc: USER_HZ, which Linux
	// has fixed at 100 for every architecture that Go runs on.
	ticksPerSecond = 100
)

// A Server is one running process. It is safe for concurrent use, except Stop and Kill.
type Server struct {
	// Addr is the client address, "127.0.0.1:port".
	Addr string

	// Port is the port of Addr.
	Port int

	// Kind is the kind of the server.
	Kind Kind

	// DataDir contains the server's data; LogFile its standard output and error.
	DataDir, LogFile string

	options Options
	scratch string
	command *exec.Cmd
	ended   chan struct{} // closed after the process has been waited for
	failure error         // how it ended; read after ended is closed
}

func start(ctx context.Context, k Kind, o Options) (*Server, error) {
	s, err := begin(ctx, k, o)
	if err != nil {
		return nil, err
	}
	if err := s.awaitServing(ctx); err != nil {
		err = fmt.Errorf("servers: start %s: %w\n%s", k.Name(), err, s.LogTail(4000))
		return nil, errors.Join(err, s.Kill())
	}
	return s, nil
}

// begin starts the process and does not wait until it serves.
func begin(ctx context.Context, k Kind, o Options) (*Server, error) {
	scratch, err := os.MkdirTemp("", "conclave-server-")
	if err != nil {
		return nil, fmt.Errorf("servers: start %s: %w", k.Name(), err)
	}
	s := &Server{Kind: k, Port: o.Port, DataDir: o.DataDir, options: o, scratch: scratch,
		LogFile: o.LogFile, ended: make(chan struct{})}
	if s.LogFile == "" {
		s.LogFile = filepath.Join(scratch, "log")
	}
	if err := s.launch(ctx); err != nil {
		os.RemoveAll(scratch)
		return nil, fmt.Errorf("servers: start %s: %w", k.Name(), err)
	}
	return s, nil
}

// launch writes the configuration and starts the process.
func (s *Server) launch(ctx context.Context) error {
	var err error
	if s.DataDir == "" {
		s.DataDir = filepath.Join(s.scratch, "data")
	}
	if err = os.MkdirAll(s.DataDir, 0o755); err != nil {
		return err
	}
	if s.Port == 0 {
		if s.Port, err = childtest.FreePort(); err != nil {
			return err
		}
	}
	s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port))
	file := s.options.ConfigFile
	if file == "" {
		file = filepath.Join(s.scratch, "zoo.cfg")
		text := config(s.DataDir, s.Port, s.options)
		if err = os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
	}
	args, err := s.Kind.command(ctx, file, s.options)
	if err != nil {
		return err
	}
	return s.run(args)
}

// run starts the process and a goroutine that waits for its end.
func (s *Server) run(args []string) error {
	log, err := s.openLog()
	if err != nil {
		return err
	}
	s.command = exec.Command(args[0], args[1:]...)
	s.command.Dir = s.scratch
	s.command.Env = append(os.Environ(), s.options.Environment...)
	s.command.Stdout, s.command.Stderr = log, log
	// In a process group of its own the server does not get a Ctrl-C at the terminal while
	// the test still uses it; the death signal is servers-S1.
	s.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	ready := func(err error) error { return err }
	if s.options.Disk != nil {
		if ready, err = s.options.Disk.attach(s); err != nil {
			log.Close()
			return err
		}
	}
	started := make(chan error, 1)
	go func() {
		defer log.Close()
		// The death signal depends on the thread that started the process, so this thread
		// must not end before the process.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := s.command.Start()
		started <- err
		if err == nil {
			s.failure = s.command.Wait()
			close(s.ended)
		}
	}()
	err = <-started
	if err == nil {
		if err = ready(nil); err != nil {
			s.signal(syscall.SIGKILL)
		}
		return err
	}
	return ready(err)
}

// openLog truncates the log, or appends to one that the options name.
func (s *Server) openLog() (*os.File, error) {
	flags := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if s.options.LogFile != "" {
		flags = os.O_WRONLY | os.O_CREATE | os.O_APPEND
	}
	return os.OpenFile(s.LogFile, flags, 0o644)
}

// awaitServing polls "srvr" until the server reports its mode.
func (s *Server) awaitServing(ctx context.Context) error {
	within := s.options.StartWithin
	if within == 0 {
		within = defaultStartWithin
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		answer, err := fourLetterWord(s.Addr, "srvr", pollWithin)
		if err == nil && strings.Contains(answer, "Mode:") {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not serving within %v: srvr answered %q, %v", within, answer, err)
		case <-s.ended:
			return fmt.Errorf("process ended: %v", s.failure)
		case <-poll.C:
		}
	}
}

// FourLetterWord sends a four-letter word and returns the whole answer.
func FourLetterWord(addr, name string) (string, error) {
	return fourLetterWord(addr, name, 5*time.Second)
}

func fourLetterWord(addr, name string, within time.Duration) (string, error) {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(within)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, name); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(c)
	return string(answer), err
}

// Pid returns the id of the process.
func (s *Server) Pid() int { return s.command.Process.Pid }

// Ended returns a channel that is closed when the process has ended, for whatever reason.
func (s *Server) Ended() <-chan struct{} { return s.ended }

// ExitError returns how the process ended; nil before that and after exit code 0.
func (s *Server) ExitError() error {
	select {
	case <-s.ended:
		return s.failure
	default:
		return nil
	}
}

// Stop ends the server with SIGTERM, or SIGKILL if that takes too long, and removes what
// Start created, except a data directory that was given in the options.
func (s *Server) Stop() error {
	s.signal(syscall.SIGTERM)
	select {
	case <-s.ended:
	case <-time.After(stopWithin):
	}
	return s.Kill()
}

// Kill ends the server with SIGKILL and removes what Start created, except a data directory
// that was given in the options.
func (s *Server) Kill() error {
	s.Crash()
	return os.RemoveAll(s.scratch)
}

// Crash ends the server with SIGKILL and leaves all its files for Restart.
func (s *Server) Crash() {
	ended := s.ended // a concurrent Restart replaces it
	s.signal(syscall.SIGKILL)
	<-ended
}

// Pause stops the process with SIGSTOP; Resume lets it continue. Pause returns when no
// thread runs any longer. Crash also ends a paused process.
func (s *Server) Pause() {
	s.signal(syscall.SIGSTOP)
	// The signal takes effect later: on a busy machine a thread may continue for a while
	// and answer something that was sent after this call.
	for end := time.Now().Add(pauseWithin); time.Now().Before(end) && !s.stopped(); {
		time.Sleep(100 * time.Microsecond)
	}
}

const pauseWithin = 5 * time.Second

// stopped reports whether no thread of the process runs any more.
func (s *Server) stopped() bool {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.command.Process.Pid))
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		// The state follows the name, which is in parentheses and may contain anything,
		// even parentheses.
		at := bytes.LastIndexByte(text, ')')
		if err == nil && at >= 0 && at+2 < len(text) && !bytes.ContainsRune([]byte("TtZX"), rune(text[at+2])) {
			return false
		}
	}
	return true
}

// Resume lets a paused process continue.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

// signal signals the process unless it has been waited for; os.Process ensures that a
// reused pid is never hit.
func (s *Server) signal(sig syscall.Signal) {
	// An error means that the process has ended, which is fine.
	_ = s.command.Process.Signal(sig)
}

// Restart starts the server again after Crash, on the same port and data. Stop must not
// have been called.
func (s *Server) Restart(ctx context.Context) error {
	s.ended, s.failure = make(chan struct{}), nil
	if err := s.launch(ctx); err != nil {
		close(s.ended)
		return fmt.Errorf("servers: restart %s: %w", s.Kind.Name(), err)
	}
	if err := s.awaitServing(ctx); err != nil {
		return fmt.Errorf("servers: restart %s: %w\n%s", s.Kind.Name(), err, s.LogTail(4000))
	}
	return nil
}

// Log returns the process's standard output and error since its last start, or the whole
// content of Options.LogFile.
func (s *Server) Log() string {
	text, err := os.ReadFile(s.LogFile)
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	return string(text)
}

// LogTail returns the last bytesMax bytes of Log.
func (s *Server) LogTail(bytesMax int) string {
	log := s.Log()
	return log[max(0, len(log)-bytesMax):]
}

// CPU returns the CPU time that the process has used so far, user and system, all threads,
// with a resolution of 10 ms.
func (s *Server) CPU() (time.Duration, error) { return CPUOf(s.Pid()) }

// CPUOf is CPU for any process.
func CPUOf(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("servers: cpu time: %w", err)
	}
	// The program's name, in parentheses, may contain spaces, so count after it. utime and
	// stime are fields 14 and 15 of proc(5), 12 and 13 from there.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("servers: cpu time: short stat line %q", text)
	}
	user, err1 := strconv.ParseInt(string(fields[11]), 10, 64)
	system, err2 := strconv.ParseInt(string(fields[12]), 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return 0, fmt.Errorf("servers: cpu time: %w", err)
	}
	return time.Duration(user+system) * time.Second / ticksPerSecond, nil
}

// RSS returns the resident memory of the process in bytes.
func (s *Server) RSS() (int64, error) { return s.statusBytes("VmRSS:") }

// PeakRSS returns the largest resident memory that the process has had, in bytes.
func (s *Server) PeakRSS() (int64, error) { return s.statusBytes("VmHWM:") }

// statusBytes reads a line of /proc/PID/status with a value in kB.
func (s *Server) statusBytes(name string) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Pid()))
	if err != nil {
		return 0, fmt.Errorf("servers: memory: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == name {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("servers: memory: no %s in status", name)
}
