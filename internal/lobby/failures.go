package lobby

import "sync/atomic"

// Failures counts failures and refusals, and limits their log lines to one a minute,
// because there may be many strangers, or many clients with expired certificates. Its
// methods are safe for concurrent use.
type Failures struct {
	count atomic.Int64
	toldS atomic.Int64 // when they were last logged, in seconds of the clock; 0: never
}

// failuresTellS is the time between two lines of the log about failures.
const failuresTellS = 60

// Note counts a failure. nowMs is the time in milliseconds of a clock that never goes
// back. It returns the count, and reports whether to log it.
func (f *Failures) Note(nowMs int64) (int64, bool) { return f.NoteAll(nowMs, 1) }

// NoteAll counts n failures, as Note counts one.
func (f *Failures) NoteAll(nowMs, n int64) (int64, bool) {
	count, now, told := f.count.Add(n), max(nowMs/1000, 1), f.toldS.Load()
	return count, (told == 0 || now-told >= failuresTellS) && f.toldS.CompareAndSwap(told, now)
}

// Count returns the number of failures.
func (f *Failures) Count() int64 { return f.count.Load() }
