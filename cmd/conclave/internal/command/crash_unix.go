//go:build unix

package command

import (
	"os"
	"syscall"
)

// keepMemory has a crash write no file of this process's memory, which is all data, unless GOTRACEBACK asks for one.
func keepMemory() {
	if os.Getenv("GOTRACEBACK") != "crash" {
		_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}) // what has no limit writes one
	}
}
