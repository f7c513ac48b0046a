package watch

import (
	"slices"
	"unsafe"

	"github.com/conclave-project/conclave/internal/compact"
)

// store holds the spots of both registries, millions of them, without pointers. Only spots with
// several watchers, or with recursive ones, have a pointer, to a crowd.
type store struct {
	spots  compact.Slab[spot]
	paths  compact.Arena
	crowds []*crowd // by number; nil: the number is free, or 0
	idle   []uint32 // the free numbers
}

// spot has the watchers of one path. There is nearly always only one, so the first needs no
// list.
type spot struct {
	path, length uint32 // in the arena, and in bytes
	crowd        uint32 // the others, 0 for none
	first        watcher
}

// crowd has the further watchers of a spot. If there are many, the place of each is recorded in
// a map.
type crowd struct {
	more   []watcher
	places map[uint32]int32 // index in more by number, if there are more than searchMax
	below  subtree          // the connections that watch everything below the spot; some may be gone
}

// searchMax is how many watchers are searched one after another.
const searchMax = 16

// watcher is one connection at a spot.
type watcher struct {
	number uint32 // of the connection, see numbers; 0 is none
	at     uint32 // index of the spot in the connection's list
	modes  modes
}

// pathOf returns the path of a spot. It is in the arena, so it must be copied to be kept.
func (m *store) pathOf(s *spot) string {
	return unsafe.String(unsafe.SliceData(m.paths.Bytes(s.path, int(s.length))), s.length)
}

// spot finds the spot of a path; 0 if nobody waits there.
func (t *Table) spot(r Registry, path string) uint32 {
	x := &t.mu.registries[r].index
	if x.Len() == 0 {
		return 0
	}
	id, _ := x.Find(x.Hash(0, path), func(id uint32) bool { return t.mu.pathOf(t.mu.spots.At(id)) == path })
	return id
}

// needSpot finds the spot of a path, and creates it if there is none. The path is copied.
func (t *Table) needSpot(r Registry, path string) uint32 {
	id := t.spot(r, path)
	if id == 0 {
		id = t.mu.spots.Take()
		s := t.mu.spots.At(id)
		s.path, s.length = t.mu.paths.Alloc(len(path)), uint32(len(path))
		copy(t.mu.paths.Bytes(s.path, len(path)), path)
		x := &t.mu.registries[r].index
		x.Put(x.Hash(0, path), id)
	}
	return id
}

// remove removes a spot where nobody waits.
func (t *Table) remove(r Registry, id uint32) {
	s, x := t.mu.spots.At(id), &t.mu.registries[r].index
	x.Remove(x.Hash(0, t.mu.pathOf(s)), id)
	t.mu.paths.Free(s.path, int(s.length))
	t.mu.spots.Give(id)
}

// take removes a watcher from a spot, and the spot too if that was the last one.
func (t *Table) take(r Registry, id, number uint32) {
	s := t.mu.spots.At(id)
	if s.first.number != number {
		t.mu.crowds[s.crowd].take(number)
		t.mu.disperse(s)
	} else if !t.mu.promote(s) {
		t.remove(r, id)
	}
}

// promote makes another watcher the first one, in place of one that has gone; false if there is
// none.
func (m *store) promote(s *spot) bool {
	s.first = watcher{}
	c := m.crowds[s.crowd]
	if c == nil || len(c.more) == 0 {
		m.disperse(s)
		return false
	}
	last := c.more[len(c.more)-1]
	c.take(last.number)
	s.first = last
	m.disperse(s)
	return true
}

// find returns the watcher of a connection at a spot; nil if there is none.
func (m *store) find(s *spot, number uint32) *watcher {
	if s.first.number == number {
		return &s.first
	}
	if s.crowd == 0 {
		return nil
	}
	c := m.crowds[s.crowd]
	if i := c.place(number); i >= 0 {
		return &c.more[i]
	}
	return nil
}

// put adds a watcher that is not there yet.
func (m *store) put(s *spot, number uint32) *watcher {
	if s.first.number == 0 {
		s.first.number = number
		return &s.first
	}
	c := m.needCrowd(s)
	c.more = append(c.more, watcher{number: number})
	if c.places == nil {
		c.notePlaces()
	} else {
		c.places[number] = int32(len(c.more) - 1)
	}
	return &c.more[len(c.more)-1]
}

// needCrowd returns the crowd of a spot, and creates it if there is none.
func (m *store) needCrowd(s *spot) *crowd {
	if s.crowd == 0 {
		if last := len(m.idle) - 1; last >= 0 {
			s.crowd, m.idle = m.idle[last], m.idle[:last]
		} else {
			m.crowds = append(m.crowds, nil)
			s.crowd = uint32(len(m.crowds) - 1)
		}
		m.crowds[s.crowd] = &crowd{}
	}
	return m.crowds[s.crowd]
}

// disperse removes the crowd of a spot if it is empty.
func (m *store) disperse(s *spot) {
	if c := m.crowds[s.crowd]; c != nil && len(c.more) == 0 && c.below.len() == 0 {
		m.crowds[s.crowd] = nil
		m.idle = append(m.idle, s.crowd)
		s.crowd = 0
	}
}

// place returns the index of a connection in more; -1 if it is not there.
func (c *crowd) place(number uint32) int {
	if c.places == nil {
		return slices.IndexFunc(c.more, func(w watcher) bool { return w.number == number })
	}
	if i, ok := c.places[number]; ok {
		return int(i)
	}
	return -1
}

// notePlaces records the places of all watchers, if there are many.
func (c *crowd) notePlaces() {
	c.places = nil
	if len(c.more) <= searchMax {
		return
	}
	c.places = make(map[uint32]int32, len(c.more))
	for i, w := range c.more {
		c.places[w.number] = int32(i)
	}
}

// take removes a watcher; the last one moves to its place.
func (c *crowd) take(number uint32) {
	i, last := c.place(number), len(c.more)-1
	delete(c.places, number)
	if moved := c.more[last]; i != last {
		c.more[i] = moved
		if c.places != nil {
			c.places[moved.number] = int32(i)
		}
	}
	c.more = c.more[:last]
}
