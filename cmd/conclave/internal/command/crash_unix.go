//go:build unix

package command

import (
	"os"
	"syscall"
)

// keepMemory keeps a crash from writing this process's memory, with all data, to a file,
// unless GOTRACEBACK asks for one.
func keepMemory() {
	if os.Getenv("GOTRACEBACK") != "crash" {
		_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}) // without a limit, a core file would be written
	}
}
