//go:build linux

package stores

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/conclave-project/conclave/internal/childtest"
)

// A process is one process of a store, as described by the recipe.
type process struct {
	// name is for messages and for the log file.
	name string
	// dir is the working directory, which also gets the log.
	dir string
	// args are the program and its arguments; environment is added to our own.
	args, environment []string
	// user, if not nil, is the user that runs it, in case we are root and it refuses root.
	user *syscall.Credential
	// answers reports whether the store can be used; it is called until it returns nil.
	answers func(context.Context) error

	command *exec.Cmd
	ended   chan struct{}
	failure error // read after ended is closed
}

// start runs the program and waits until it answers.
func (p *process) start(ctx context.Context) error {
	if err := p.launch(); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		err := p.answers(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%s ended: %v", p.name, p.failure)
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w", p.name, err)
		case <-poll.C:
		}
	}
}

// launch starts the process and a goroutine that waits for its end.
func (p *process) launch() error {
	log, err := os.OpenFile(p.logFile(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	p.command = exec.Command(p.args[0], p.args[1:]...)
	p.command.Dir = p.dir
	p.command.Env = append(os.Environ(), p.environment...)
	p.command.Stdout, p.command.Stderr = log, log
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true, Credential: p.user}
	p.ended = make(chan struct{})
	started := make(chan error, 1)
	go func() {
		defer log.Close()
		// The death signal depends on the thread that started the process, so this thread
		// must not end before the process.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.command.Start()
		started <- err
		if err == nil {
			p.failure = p.command.Wait()
		}
		close(p.ended)
	}()
	return <-started
}

func (p *process) logFile() string { return filepath.Join(p.dir, p.name+".log") }

// Crash ends the process, and its children, with SIGKILL.
func (p *process) Crash() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// Kill ends the process for good.
func (p *process) Kill() error {
	if p.command != nil && p.command.Process != nil {
		p.Crash()
	}
	return nil
}

// Restart starts the process again after Crash.
func (p *process) Restart(ctx context.Context) error { return p.start(ctx) }

// Pause stops the process and its children.
func (p *process) Pause() { p.signal(syscall.SIGSTOP) }

// Resume lets them continue.
func (p *process) Resume() { p.signal(syscall.SIGCONT) }

// signal signals the process group, which belongs to the process. It does nothing once the
// process has been waited for, because the pid may then belong to another process.
func (p *process) signal(sig syscall.Signal) {
	select {
	case <-p.ended:
	default:
		_ = syscall.Kill(-p.command.Process.Pid, sig) // it may have ended just now
	}
}

// LogTail returns the end of the process's output.
func (p *process) LogTail(bytesMax int) string {
	text, err := os.ReadFile(p.logFile())
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	return string(text[max(0, len(text)-bytesMax):])
}

// freeAddrs returns count different free addresses on loopback.
func freeAddrs(count int) ([]string, error) {
	taken := map[int]bool{}
	var addrs []string
	for len(addrs) < count {
		port, err := childtest.FreePort()
		if err != nil {
			return nil, err
		}
		if !taken[port] {
			taken[port] = true
			addrs = append(addrs, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		}
	}
	return addrs, nil
}

// answerOf returns a check that a URL answers with status 200.
func answerOf(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("GET %s: %s", url, response.Status)
		}
		return nil
	}
}

// listensOn returns a check that an address accepts connections.
func listensOn(addr string) func(context.Context) error {
	return func(ctx context.Context) error {
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		return c.Close()
	}
}
