//go:build !unix

package command

// cpuSeconds cannot be found out on this system.
func cpuSeconds() (float64, bool) { return 0, false }
