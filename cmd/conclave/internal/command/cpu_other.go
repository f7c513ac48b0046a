//go:build !unix

package command

// cpuSeconds is not known here.
func cpuSeconds() (float64, bool) { return 0, false }
