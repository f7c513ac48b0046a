package watch

import (
	"math/bits"
	"slices"
)

// A change fires the recursive watches of its path and of all paths above it. A path may have
// thousands of paths above it, and all connections may watch each of them: clients choose that,
// and a change must not cost the product of both numbers. So connections are numbered, and each
// path has the set of the numbers that watch everything below it. The connections that a path
// adds to those already in the event are then found 64 at a time.

// subtree is the set of connections that watch everything below a path, by their numbers. It is
// a list or, if that would be longer than a bit set, a bit set.
type subtree struct {
	list  []uint32 // sorted
	set   bitset
	count int // of set
}

// listMax is how many numbers are always kept in a list.
const listMax = 8

func (s *subtree) len() int { return len(s.list) + s.count }

// add adds a number, which is below most.
func (s *subtree) add(number uint32, most int) {
	if s.set == nil {
		if at, found := slices.BinarySearch(s.list, number); !found {
			s.list = slices.Insert(s.list, at, number)
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
	s.put(number)
}

func (s *subtree) put(number uint32) {
	for int(number) >= 64*len(s.set) {
		s.set = append(s.set, 0)
	}
	if s.set.add(number) {
		s.count++
	}
}

// remove removes a number; false if it is not there.
func (s *subtree) remove(number uint32) (was bool) {
	if s.set == nil {
		at, found := slices.BinarySearch(s.list, number)
		if found {
			s.list = slices.Delete(s.list, at, at+1)
		}
		return found
	}
	if int(number) >= 64*len(s.set) {
		return false
	}
	some, bit := &s.set[number/64], uint64(1)<<(number%64)
	if *some&bit == 0 {
		return false
	}
	*some &^= bit
	if s.count--; s.count == 0 {
		s.set = nil
	}
	return true
}

// tell adds the connections to the event that are not in it yet.
func (s *subtree) tell(l *numbers) {
	for _, number := range s.list {
		l.tell(number)
	}
	for i, some := range s.set {
		for fresh := some &^ l.told[i]; fresh != 0; fresh &= fresh - 1 {
			l.tell(uint32(64*i + bits.TrailingZeros64(fresh)))
		}
	}
}

// unwatch removes a connection from those that watch everything below a spot.
func (t *Table) unwatch(s *spot, number uint32) {
	if s.crowd == 0 {
		return
	}
	below := &t.mu.crowds[s.crowd].below
	if below.remove(number) && below.len() == 0 {
		t.mu.above.Remove(t.mu.pathOf(s))
		t.mu.disperse(s)
	}
}
