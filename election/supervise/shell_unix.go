//go:build unix

package supervise

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"
)

// shellCommand is a command for /bin/sh that runs in a session of its own.
type shellCommand struct {
	text, dir      string
	env            []string
	stdout, stderr io.Writer
}

// outputPatience is how long to wait for the output of a command that has ended while other
// processes still have its pipe open.
const outputPatience = 100 * time.Millisecond

// run returns nil if the command ended with code 0. The command's process group is killed
// when the context ends, and what is left of it when the command ends.
func (s shellCommand) run(ctx context.Context) error {
	began := time.Now()
	command := exec.CommandContext(ctx, "/bin/sh", "-c", s.text)
	command.Dir, command.Env, command.Stdout, command.Stderr = s.dir, s.env, s.stdout, s.stderr
	command.SysProcAttr = commandAttr()
	kill := func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.Cancel = kill
	command.WaitDelay = outputPatience
	if err := command.Start(); err != nil {
		return fmt.Errorf("start the shell: %w", err)
	}
	err := command.Wait()
	_ = kill()
	if ctx.Err() != nil {
		return fmt.Errorf("was killed after %v", time.Since(began).Round(time.Millisecond))
	}
	if command.ProcessState.Success() {
		return nil // even if a child keeps the pipe open (exec.ErrWaitDelay)
	}
	return err
}
