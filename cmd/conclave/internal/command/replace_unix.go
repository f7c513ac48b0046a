//go:build unix

package command

import "syscall"

// replaceProcess makes this process run another program. It returns only if
// that fails.
func replaceProcess(path string, args, env []string) error { return syscall.Exec(path, args, env) }
