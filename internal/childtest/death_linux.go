package childtest

import (
	"os/exec"
	"syscall"
)

// dieWithUs makes the system kill the process when its parent has ended.
func dieWithUs(command *exec.Cmd) {
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{}
	}
	command.SysProcAttr.Pdeathsig = syscall.SIGKILL
}
