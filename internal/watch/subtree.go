package watch

import (
	"math/bits"
	"slices"

	"github.com/conclave-project/conclave/internal/session"
)

// A change fires the recursive watches of its path and of all paths above it. One path may
// have thousands above it, and all connections may watch each of them: a client chooses
// that, and a change must not cost the product of both. So connections with recursive
// watches are numbered, and a path has the set of their numbers. What a path adds to those
// told already is found 64 connections at a time.

// slots numbers the connections with recursive watches.
type slots struct {
	waits []*waits // by number; nil: free
	free  []int32
	told  bitset // while a change fires
}

// number gives a connection its number.
func (l *slots) number(w *waits) {
	if w.numbered {
		return
	}
	w.numbered = true
	if n := len(l.free); n > 0 {
		w.slot, l.free = l.free[n-1], l.free[:n-1]
	} else {
		w.slot, l.waits = int32(len(l.waits)), append(l.waits, nil)
	}
	l.waits[w.slot] = w
}

// release takes the number of a connection back of which nothing is left behind.
func (l *slots) release(w *waits) {
	if w.numbered {
		l.waits[w.slot] = nil
		l.free = append(l.free, w.slot)
	}
}

// begin forgets who was told.
func (l *slots) begin() {
	length := (len(l.waits) + 63) / 64
	if cap(l.told) < length {
		l.told = make(bitset, length)
	}
	l.told = l.told[:length]
	clear(l.told)
}

// tell appends a connection, unless it was told, or has gone.
func (l *slots) tell(slot int32, to []session.ConnID) []session.ConnID {
	if l.told.add(slot) && !l.waits[slot].gone {
		to = append(to, l.waits[slot].conn)
	}
	return to
}

// bitset is a set of numbers.
type bitset []uint64

// add puts a number in; false if it was there. The set has a place for it.
func (b bitset) add(n int32) bool {
	some, bit := &b[n/64], uint64(1)<<(n%64)
	was := *some&bit != 0
	*some |= bit
	return !was
}

// subtree is which connections watch all below a path, by their numbers: a list, or where
// that would be longer than a set of bits, a set.
type subtree struct {
	list  []int32 // sorted
	set   bitset
	count int // of set
}

// listMax is how many are always in a list.
const listMax = 8

func (s *subtree) len() int { return len(s.list) + s.count }

// add puts a number in which is below most.
func (s *subtree) add(slot int32, most int) {
	if s.set == nil {
		if at, found := slices.BinarySearch(s.list, slot); !found {
			s.list = slices.Insert(s.list, at, slot)
		}
		if len(s.list) <= listMax || len(s.list) < most/64 {
			return
		}
		for _, one := range s.list {
			s.put(one)
		}
		s.list = nil
		return
	}
	s.put(slot)
}

func (s *subtree) put(slot int32) {
	for int(slot) >= 64*len(s.set) {
		s.set = append(s.set, 0)
	}
	if s.set.add(slot) {
		s.count++
	}
}

// remove takes a number out, if it is there.
func (s *subtree) remove(slot int32) {
	if s.set == nil {
		if at, found := slices.BinarySearch(s.list, slot); found {
			s.list = slices.Delete(s.list, at, at+1)
		}
		return
	}
	if int(slot) >= 64*len(s.set) {
		return
	}
	if some, bit := &s.set[slot/64], uint64(1)<<(slot%64); *some&bit != 0 {
		*some &^= bit
		if s.count--; s.count == 0 {
			s.set = nil
		}
	}
}

// tell appends the connections that were not told.
func (s *subtree) tell(l *slots, to []session.ConnID) []session.ConnID {
	for _, slot := range s.list {
		to = l.tell(slot, to)
	}
	for i, some := range s.set {
		for fresh := some &^ l.told[i]; fresh != 0; fresh &= fresh - 1 {
			to = l.tell(int32(64*i+bits.TrailingZeros64(fresh)), to)
		}
	}
	return to
}
