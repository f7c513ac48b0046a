//go:build !linux

package clock

import "time"

var processStart = time.Now()

// now counts from the start of the process on Go's monotonic clock.
func now() Instant { return Instant(time.Since(processStart)) }

func newTimer(at Instant) Timer { return newGoTimer(at) }
