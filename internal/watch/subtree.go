package watch

import (
	"math/bits"
	"slices"
)

// A change fires the recursive watches of its path and of all paths above it. One path may
// have thousands above it, and all connections may watch each of them: a client chooses
// that, and a change must not cost the product of both. So connections are numbered, and a
// path has the set of the numbers that watch all below it. What a path adds to those
// told already is found 64 connections at a time.

// subtree is which connections watch all below a path, by their numbers: a list, or where
// that would be longer than a set of bits, a set.
type subtree struct {
	list  []uint32 // sorted
	set   bitset
	count int // of set
}

// listMax is how many are always in a list.
const listMax = 8

func (s *subtree) len() int { return len(s.list) + s.count }

// add puts a number in which is below most.
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

// remove takes a number out; false if it is not there.
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

// tell tells the connections that were not told.
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

// unwatch takes a connection out of those that watch all below a spot.
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
