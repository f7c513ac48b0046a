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
//	watch-V4  After Forget nothing of a connection is told or counted. What it leaves
//	          behind goes by Sweep, and a few at a time with what is added: a
//	          connection may have a million watches, and nobody waits for them.
//	watch-V5  No watch is added beyond a limit, and a persistent one as a whole or not
//	          at all.
//
// The table may be used by many goroutines. Whether a connection may see the
// event (its READ permission) is not decided here.
package watch

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/conclave-project/conclave/internal/pathset"
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
	portion int          // how many watches Forget and Sweep remove
	bytes   atomic.Int64 // of memory, about, that all watches take
	limits  Limits

	mu struct {
		sync.Mutex
		registries [2]registry
		byConn     map[session.ConnID]*waits
		owners     map[zk.Identity]*owner
		gone       []*waits           // in the order in which they were forgotten
		recursive  int                // recursive watches in all
		slots      slots              // the connections that have some
		above      pathset.Map[*spot] // where they are, or have been
		levels     []*spot            // of those, while a change fires
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
	path   string
	first  watcher
	more   []watcher
	places map[session.ConnID]int // of more, when they are more than searchMax
	below  *subtree               // which connections watch all below it, nil for none; some may be gone
}

// searchMax is how many watchers are searched one after the other.
const searchMax = 16

// watcher is one connection at a spot, as long as the connection lists it.
type watcher struct {
	conn  session.ConnID
	at    int32 // where its connection lists the spot
	modes modes
}

// waits are the spots of one connection, to find them when it goes.
type waits struct {
	conn      session.ConnID
	gone      bool  // it was forgotten
	numbered  bool  // slot counts
	slot      int32 // see slots
	spots     [2][]*spot
	recursive int
	bytes     int64 // of memory, about
	owners    []owned
}

// weight is about what a watch takes in memory beside the bytes of its path, where nobody
// else watches that. It was measured.
const weight = 350

// weigh adds a watch to what its connection has, or takes it out.
func (t *Table) weigh(w *waits, s *spot, sign int64) {
	bytes := sign * (weight + int64(len(s.path)))
	w.bytes += bytes
	for _, o := range w.owners {
		o.watches += int(sign)
	}
	t.bytes.Add(bytes)
}

// Bytes returns about what all watches take in memory. It costs next to nothing.
func (t *Table) Bytes() int64 { return t.bytes.Load() }

// Heaviest returns the connection whose watches take most among those of the host whose
// connections take most together; false if there are none.
func Heaviest[Host comparable](t *Table, hostOf func(session.ConnID) Host) (conn session.ConnID, found bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := map[Host]int64{}
	hosts := make(map[session.ConnID]Host, len(t.mu.byConn))
	for id, w := range t.mu.byConn {
		hosts[id] = hostOf(id)
		of[hosts[id]] += w.bytes
	}
	most, mostOfHost := int64(0), int64(0)
	for id, w := range t.mu.byConn {
		host := of[hosts[id]]
		if host > mostOfHost || host == mostOfHost && (w.bytes > most || w.bytes == most && found && id < conn) {
			conn, most, mostOfHost, found = id, w.bytes, host, true
		}
	}
	return conn, found
}

// New returns an empty table.
func New() *Table {
	t := &Table{portion: sweptAtOnce}
	t.mu.registries[Data].spots = map[string]*spot{}
	t.mu.registries[Child].spots = map[string]*spot{}
	t.mu.byConn = map[session.ConnID]*waits{}
	t.mu.owners = map[zk.Identity]*owner{}
	return t
}

// The places of standard watches.
var standards = [2][]place{Data: {{Data, standard}}, Child: {{Child, standard}}}

// Add sets a standard watch; false if there are as many as there may be. The path is copied
// if the table keeps it.
func (t *Table) Add(conn session.ConnID, r Registry, path string) bool {
	return t.addAll(conn, path, standards[r])
}

// Where watches of the other modes wait: persistent ones in both registries, recursive ones
// in the data registry only (watch-V3).
var (
	persistents = placesOf(zk.WatcherPersistent)
	recursives  = placesOf(zk.WatcherPersistentRecursive)
)

// AddMode sets a watch of the given mode on path; false if there are as many as there may be.
func (t *Table) AddMode(conn session.ConnID, mode zk.WatchMode, path string) bool {
	if mode == zk.WatchPersistentRecursive {
		return t.addAll(conn, path, recursives)
	}
	return t.addAll(conn, path, persistents)
}

func (t *Table) addAll(conn session.ConnID, path string, places []place) bool {
	t.mu.Lock()
	fits := t.fits(conn, path, places)
	if fits {
		for _, p := range places {
			t.add(conn, p.registry, path, p.modes)
		}
	}
	t.mu.Unlock()
	if !fits {
		t.refused(conn)
	}
	return fits
}

func (t *Table) add(conn session.ConnID, r Registry, path string, m modes) {
	t.sweep(sweptWithOne)
	reg := &t.mu.registries[r]
	w := t.waitsOf(conn)
	s := reg.spots[path]
	if s == nil {
		path = strings.Clone(path)
		s = &spot{path: path}
		reg.spots[path] = s
	}
	at := s.find(conn)
	if at == nil {
		at = s.put(conn)
	}
	if !w.lists(r, s, at) { // it is new, or what the same connection left when it was forgotten
		at.at, at.modes = int32(len(w.spots[r])), 0
		w.spots[r] = append(w.spots[r], s)
		reg.total++
		t.weigh(w, s, 1)
	}
	if m == recursive && at.modes&recursive == 0 {
		w.recursive++
		t.mu.recursive++
		t.mu.slots.number(w)
		if s.below == nil {
			s.below = &subtree{}
			t.mu.above.Add(s.path, s)
		}
		s.below.add(w.slot, len(t.mu.slots.waits))
	}
	at.modes |= m
}

// lists reports whether the connection of a watcher has it still.
func (w *waits) lists(r Registry, s *spot, at *watcher) bool {
	return w != nil && int(at.at) < len(w.spots[r]) && w.spots[r][at.at] == s
}

// unlist takes a spot out of the list of a connection; the last one takes its place.
func (t *Table) unlist(w *waits, r Registry, at int32, conn session.ConnID) {
	list := w.spots[r]
	t.weigh(w, list[at], -1)
	end := int32(len(list) - 1)
	if last := list[end]; at != end {
		list[at] = last
		last.find(conn).at = at
	}
	list[end] = nil
	w.spots[r] = list[:end]
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
	at, w := s.find(conn), t.mu.byConn[conn]
	if at == nil || at.modes&m == 0 || !w.lists(r, s, at) {
		return false
	}
	if at.modes&m&recursive != 0 {
		w.recursive--
		t.mu.recursive--
		t.unwatch(s, w)
	}
	at.modes &^= m
	if at.modes != 0 {
		return true
	}
	reg.total--
	t.unlist(w, r, at.at, conn)
	if s.take(conn) {
		t.remove(r, s)
	}
	return true
}

// remove takes out a spot where nobody waits.
func (t *Table) remove(r Registry, s *spot) {
	delete(t.mu.registries[r].spots, s.path)
	if s.below != nil {
		s.below = nil
		t.mu.above.Remove(s.path)
	}
}

// unwatch takes a connection out of those that watch all below a spot.
func (t *Table) unwatch(s *spot, w *waits) {
	if s.below == nil || !w.numbered {
		return
	}
	if s.below.remove(w.slot); s.below.len() == 0 {
		s.below = nil
		t.mu.above.Remove(s.path)
	}
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

// Forget ends all watches of a connection, in the same time however many there are.
func (t *Table) Forget(conn session.ConnID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.mu.byConn[conn]
	if w == nil {
		return
	}
	delete(t.mu.byConn, conn)
	w.gone = true
	t.disown(w, w.owners)
	w.owners = nil
	for r := range w.spots {
		t.mu.registries[r].total -= len(w.spots[r])
	}
	t.mu.recursive -= w.recursive
	t.bytes.Add(-w.bytes)
	t.mu.gone = append(t.mu.gone, w)
	t.sweep(t.portion)
}

// How many watches of connections that are gone are removed: with each that is added, so
// that what is left behind cannot grow without end, by Forget, and by Sweep.
const (
	sweptWithOne = 2
	sweptAtOnce  = 256
)

// Sweep removes some of what forgotten connections have left behind, and reports whether
// there is more.
func (t *Table) Sweep() (more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep(t.portion)
	return len(t.mu.gone) > 0
}

// Sweeping reports whether forgotten connections have left something behind.
func (t *Table) Sweeping() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.mu.gone) > 0
}

// sweep removes up to n watches.
func (t *Table) sweep(n int) {
	for len(t.mu.gone) > 0 {
		g := t.mu.gone[0]
		for r := range g.spots {
			for len(g.spots[r]) > 0 {
				if n--; n < 0 {
					return
				}
				end := len(g.spots[r]) - 1
				t.leave(Registry(r), g.spots[r][end], g)
				g.spots[r][end] = nil
				g.spots[r] = g.spots[r][:end]
			}
		}
		t.mu.slots.release(g)
		t.mu.gone = slices.Delete(t.mu.gone, 0, 1)
	}
}

// leave takes a watcher out of a spot, unless it has fired since, or its connection has set
// it again.
func (t *Table) leave(r Registry, s *spot, g *waits) {
	if r == Data {
		t.unwatch(s, g)
	}
	at := s.find(g.conn)
	if at == nil || t.mu.byConn[g.conn].lists(r, s, at) {
		return
	}
	if s.take(g.conn) {
		t.remove(r, s)
	}
}
