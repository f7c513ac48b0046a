package watch

import "github.com/conclave-project/conclave/internal/session"

// numbers numbers the connections that have watches, or have left some to be swept.
type numbers struct {
	waits []*waits // by number; nil: the number is free, or 0
	free  []uint32
	told  bitset   // numbers added to the event that fires; empty otherwise
	event []uint32 // the same numbers, in order
}

// give gives a connection a number.
func (l *numbers) give(w *waits) {
	if n := len(l.free); n > 0 {
		w.number, l.free = l.free[n-1], l.free[:n-1]
	} else {
		if len(l.waits) == 0 {
			l.waits = append(l.waits, nil)
		}
		w.number, l.waits = uint32(len(l.waits)), append(l.waits, nil)
	}
	l.waits[w.number] = w
	for len(l.told) <= int(w.number/64) {
		l.told = append(l.told, 0)
	}
}

// release frees the number of a connection that has nothing left to be swept.
func (l *numbers) release(w *waits) {
	l.waits[w.number] = nil
	l.free = append(l.free, w.number)
}

// tell adds a connection to those that receive the event (watch-V2), unless it has gone.
func (l *numbers) tell(number uint32) {
	if !l.waits[number].gone && l.told.add(number) {
		l.event = append(l.event, number)
	}
}

// end ends the event and appends the connections that receive it.
func (l *numbers) end(to []session.ConnID) []session.ConnID {
	for _, number := range l.event {
		l.told[number/64] = 0
		to = append(to, l.waits[number].conn)
	}
	l.event = l.event[:0]
	return to
}

// bitset is a set of numbers.
type bitset []uint64

// add adds a number; false if it was there already. The set must be large enough for it.
func (b bitset) add(n uint32) bool {
	some, bit := &b[n/64], uint64(1)<<(n%64)
	was := *some&bit != 0
	*some |= bit
	return !was
}
