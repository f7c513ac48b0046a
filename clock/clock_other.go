//go:build !linux

package clock

import "time"

var processStart = time.Now()

// now counts from the start of the process on Go's monotonic clock.
func now() Instant { return Instant(time.Since(processStart)) }

// device does nothing on this system: Go's timers are used instead.
type device struct{}

func (device) set(Instant, func()) bool { return false }
