package lobby

import "sync/atomic"

// Failures counts what has failed or was refused, and has it logged once a minute: there
// may be many strangers, or many clients whose certificates have run out. Its methods may
// be called by any goroutine.
type Failures struct {
	count atomic.Int64
	toldS atomic.Int64 // when they were logged last, in seconds of the clock; 0: never
}

// failuresTellS is the time between two lines of the log about failures.
const failuresTellS = 60

// Note counts one, at a time in milliseconds of a clock that never goes back. It returns
// how many there were, and reports whether that is to be logged.
func (f *Failures) Note(nowMs int64) (int64, bool) { return f.NoteAll(nowMs, 1) }

// NoteAll is Note for several.
func (f *Failures) NoteAll(nowMs, n int64) (int64, bool) {
	count, now, told := f.count.Add(n), max(nowMs/1000, 1), f.toldS.Load()
	return count, (told == 0 || now-told >= failuresTellS) && f.toldS.CompareAndSwap(told, now)
}

// Count returns how many there were.
func (f *Failures) Count() int64 { return f.count.Load() }
