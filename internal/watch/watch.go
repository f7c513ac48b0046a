// Package watch is the table of the connections that watch each path.
//
// Watches belong to connections. They go in by Add, and come out when Fire says
// what happened: as the connections to be told, each once per event. What
// always holds:
//
//	watch-V1  A standard watch fires once; it is gone when Fire returns.
//	watch-V2  A connection is told once per event, in however many modes it
//	          waits.
//	watch-V3  A recursive watch is only in the data registry: it never learns of
//	          changed children, but of everything at and below its path.
//	watch-V4  After Forget nothing of a connection is left.
//
// The table may be used by many goroutines. Whether a connection may see the
// event (its READ permission) is not decided here.
package watch

import (
	"slices"
	"strings"
	"sync"

	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/zk"
)

// modes is a set of the ways in which one connection waits on one path.
type modes uint8

const (
	standard modes = 1 << iota
	persistent
	recursive
)

// Registry says what kind of change a standard watch waits for.
type Registry uint8

// The two registries.
const (
	Data  Registry = iota // the znode itself: exists, getData
	Child                 // the set of its children: getChildren
)

// Table holds the watches of all connections.
type Table struct {
	mu struct {
		sync.Mutex
		registries [2]registry
		byConn     map[session.ConnID]*waits
		recursive  int // recursive watches in all
	}
}

// registry is one map from paths to those who wait there.
type registry struct {
	spots map[string]*spot
	total int
}

// spot is one path's watchers. Nearly always there is one, so the first needs
// no list; where there are tens of thousands, each has its place noted.
type spot struct {
	first  watcher
	more   []watcher
	places map[session.ConnID]int // of more, when they are more than searchMax
}

// searchMax is how many watchers are searched one after the other.
const searchMax = 16

type watcher struct {
	conn  session.ConnID
	modes modes
}

// waits are the paths of one connection, to find them when it goes.
type waits struct {
	paths [2]map[string]struct{}
}

// New returns an empty table.
func New() *Table {
	t := &Table{}
	t.mu.registries[Data].spots = map[string]*spot{}
	t.mu.registries[Child].spots = map[string]*spot{}
	t.mu.byConn = map[session.ConnID]*waits{}
	return t
}

// Add sets a standard watch. The path is copied if the table keeps it.
func (t *Table) Add(conn session.ConnID, r Registry, path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(conn, r, path, standard)
}

// AddMode sets a watch of the given mode on path: persistent ones wait in both
// registries, recursive ones in the data registry only (watch-V3).
func (t *Table) AddMode(conn session.ConnID, mode zk.WatchMode, path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if mode == zk.WatchPersistentRecursive {
		t.add(conn, Data, path, recursive)
		return
	}
	t.add(conn, Data, path, persistent)
	t.add(conn, Child, path, persistent)
}

func (t *Table) add(conn session.ConnID, r Registry, path string, m modes) {
	reg := &t.mu.registries[r]
	w := t.mu.byConn[conn]
	if w == nil {
		w = &waits{}
		t.mu.byConn[conn] = w
	}
	s := reg.spots[path]
	if s == nil {
		path = strings.Clone(path)
		s = &spot{}
		reg.spots[path] = s
	}
	at := s.find(conn)
	if at == nil {
		at = s.put(conn)
		if w.paths[r] == nil {
			w.paths[r] = map[string]struct{}{}
		}
		w.paths[r][strings.Clone(path)] = struct{}{}
		reg.total++
	}
	if m == recursive && at.modes&recursive == 0 {
		t.mu.recursive++
	}
	at.modes |= m
}

func (s *spot) find(conn session.ConnID) *watcher {
	if s.first.conn == conn {
		return &s.first
	}
	if i := s.place(conn); i >= 0 {
		return &s.more[i]
	}
	return nil
}

// place returns where in more a connection is, -1 if it is not there.
func (s *spot) place(conn session.ConnID) int {
	if s.places == nil {
		return slices.IndexFunc(s.more, func(w watcher) bool { return w.conn == conn })
	}
	if i, ok := s.places[conn]; ok {
		return i
	}
	return -1
}

func (s *spot) put(conn session.ConnID) *watcher {
	if s.first.conn == 0 {
		s.first.conn = conn
		return &s.first
	}
	s.more = append(s.more, watcher{conn: conn})
	if s.places == nil {
		s.notePlaces()
	} else {
		s.places[conn] = len(s.more) - 1
	}
	return &s.more[len(s.more)-1]
}

// notePlaces notes the places of all, if they are many.
func (s *spot) notePlaces() {
	s.places = nil
	if len(s.more) <= searchMax {
		return
	}
	s.places = make(map[session.ConnID]int, len(s.more))
	for i, w := range s.more {
		s.places[w.conn] = i
	}
}

// drop takes modes away from a watcher, and the watcher, the spot and the
// connection's note of it when nothing is left.
func (t *Table) drop(r Registry, path string, conn session.ConnID, m modes) bool {
	reg := &t.mu.registries[r]
	s := reg.spots[path]
	if s == nil {
		return false
	}
	at := s.find(conn)
	if at == nil || at.modes&m == 0 {
		return false
	}
	if at.modes&m&recursive != 0 {
		t.mu.recursive--
	}
	at.modes &^= m
	if at.modes != 0 {
		return true
	}
	reg.total--
	if w := t.mu.byConn[conn]; w != nil {
		delete(w.paths[r], path)
	}
	if s.take(conn) {
		delete(reg.spots, path)
	}
	return true
}

// take removes a watcher; true if it was the last one.
func (s *spot) take(conn session.ConnID) bool {
	if s.first.conn == conn {
		return !s.promote()
	}
	i, last := s.place(conn), len(s.more)-1
	delete(s.places, conn)
	if moved := s.more[last]; i != last {
		s.more[i] = moved
		if s.places != nil {
			s.places[moved.conn] = i
		}
	}
	s.more = s.more[:last]
	return false
}

// promote makes another watcher the first; false if there is none.
func (s *spot) promote() bool {
	last := len(s.more) - 1
	if last < 0 {
		return false
	}
	s.first, s.more = s.more[last], s.more[:last]
	delete(s.places, s.first.conn)
	return true
}

// Forget removes all watches of a connection.
func (t *Table) Forget(conn session.ConnID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.mu.byConn[conn]
	if w == nil {
		return
	}
	delete(t.mu.byConn, conn) // first: its notes go as a whole
	for r := range w.paths {
		for path := range w.paths[r] {
			t.drop(Registry(r), path, conn, standard|persistent|recursive)
		}
	}
}
