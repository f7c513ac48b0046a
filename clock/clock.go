// Package clock measures how much time has passed, including suspension.
//
// It provides instants and timers. What always holds:
//
//	clock-C1  An instant never goes back, whatever happens to the wall clock.
//
//	clock-C2  On Linux, the time for which the machine was suspended counts (CLOCK_BOOTTIME): a
//	          lease that ran out while a laptop or a virtual machine slept has run out when it
//	          wakes. Go's own monotonic clock stops during suspension. On other systems, the
//	          monotonic clock is the best that is available.
//	clock-C3  A timer fires no earlier than its instant.
//	clock-C4  All timers of the process together use one file descriptor.
//
// Leases, deadlines and proofs in packages election and client are instants of this clock. A
// program can give them another clock by implementing Clock. Manual, which is for tests, moves only
// when it is told to.
//
// The package does not give the date: no decision may depend on the date.
package clock

import "time"

// Instant is a point on a Clock, in nanoseconds since an arbitrary point. It has no meaning on
// another machine, or after a reboot. Two instants of one clock compare as numbers.
type Instant int64

// Add returns the instant d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns the time from other to i.
func (i Instant) Sub(other Instant) time.Duration { return time.Duration(i - other) }

// Millis returns the instant in whole milliseconds, rounded down. Machines count in milliseconds.
func (i Instant) Millis() int64 { return int64(i) / int64(time.Millisecond) }

// FromMillis returns the instant at which the given millisecond begins.
func FromMillis(ms int64) Instant { return Instant(ms) * Instant(time.Millisecond) }

// Clock provides instants and timers. Implementations are safe for use by several goroutines at
// once.
type Clock interface {
	// Now returns the current instant. It never goes back.
	Now() Instant
	// Timer returns a timer that fires once, at the given instant or as soon as possible after it,
	// never before it. If the instant has passed, the timer fires at once. The caller must stop
	// every timer.
	Timer(at Instant) Timer
}

// Timer is a timer that fires once.
type Timer interface {
	// C returns the channel that is closed when the timer fires.
	C() <-chan struct{}
	// Stop releases the timer's resources. A stopped timer may never fire. Stop may be called more
	// than once.
	Stop()
}

// System returns the clock of this machine.
func System() Clock { return system{} }

// Now returns the current instant of this machine's clock.
func Now() Instant { return now() }

type system struct{}

func (system) Now() Instant { return now() }

func (system) Timer(at Instant) Timer { return alarmOfAll.timer(at) }
