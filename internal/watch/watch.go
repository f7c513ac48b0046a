// Package watch is the table of the connections that watch each path.
//
// Watches belong to connections. Add adds them, and Fire returns, for something that happened,
// the connections to notify, each once per event. What always holds:
//
//	watch-V1  A standard watch fires once; it is gone when Fire returns.
//	watch-V2  A connection is told once per event, in however many modes it
//	          waits.
//	watch-V3  A recursive watch is only in the data registry: it never learns of
//	          changed children, but of everything at and below its path.
//	watch-V4  After Forget no watch of a connection fires or is counted. The
//	          entries that remain are removed by Sweep, and a few at a time with
//	          each watch that is added: a connection may have a million watches,
//	          and nobody should wait for their removal.
//	watch-V5  No watch is added beyond a limit, and a persistent one as a whole or not
//	          at all.
//
// Many goroutines may use the table. It does not decide whether a connection may see an event
// (its READ permission).
package watch

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/conclave-project/conclave/internal/compact"
	"github.com/conclave-project/conclave/internal/pathset"
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/zk"
)

// modes is the set of ways in which one connection waits on one path.
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
	portion int          // how many watches Forget and Sweep remove at a time
	bytes   atomic.Int64 // approximate memory of all watches
	limits  Limits

	mu struct {
		sync.Mutex
		store
		registries [2]registry
		byConn     map[session.ConnID]*waits
		numbers    numbers
		owners     map[zk.Identity]*owner
		gone       []*waits            // in the order in which they were forgotten
		recursive  int                 // number of all recursive watches
		above      pathset.Map[uint32] // the spots that have recursive watches, or have had them
		levels     []uint32            // the spots above a path, while a change fires
	}
}

// registry finds the spots of one kind by their paths.
type registry struct {
	index compact.Index
	total int
}

// waits lists the spots of one connection, to find them when it disconnects.
type waits struct {
	conn      session.ConnID
	number    uint32
	gone      bool // Forget was called
	spots     [2][]uint32
	recursive int
	bytes     int64 // approximate memory
	owners    []owned
}

// weight is the approximate memory of a watch, in addition to the bytes of its path, if nobody
// else watches that path. It was measured.
const weight = 56

// weightBelow is the additional memory of a recursive watch, on top of the bytes of its path
// again: its spot has a crowd, which is found from all paths below.
const weightBelow = 190

// weigh adds a watch to the totals of its connection, or subtracts it.
func (t *Table) weigh(w *waits, s *spot, sign int64) {
	t.hold(w, sign*(weight+int64(s.length)))
	for _, o := range w.owners {
		o.watches += int(sign)
	}
}

// weighBelow adds the additional memory of a recursive watch, or subtracts it.
func (t *Table) weighBelow(w *waits, s *spot, sign int64) {
	t.hold(w, sign*(weightBelow+int64(s.length)))
}

func (t *Table) hold(w *waits, bytes int64) {
	w.bytes += bytes
	t.bytes.Add(bytes)
}

// Bytes returns the approximate memory of all watches. The call costs next to nothing.
func (t *Table) Bytes() int64 { return t.bytes.Load() }

// Heaviest finds the host whose connections' watches take the most memory together, and returns
// its connection whose watches take the most; false if there are none.
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
	for r := range t.mu.registries {
		t.mu.registries[r].index = compact.NewIndex()
	}
	t.mu.crowds = []*crowd{nil}
	t.mu.byConn = map[session.ConnID]*waits{}
	t.mu.owners = map[zk.Identity]*owner{}
	return t
}

// The places of standard watches.
var standards = [2][]place{Data: {{Data, standard}}, Child: {{Child, standard}}}

// Add sets a standard watch; false if that would exceed a limit. The path is copied if the
// table keeps it.
func (t *Table) Add(conn session.ConnID, r Registry, path string) bool {
	return t.addAll(conn, path, standards[r])
}

// Where watches of the other modes wait: persistent ones in both registries, recursive ones
// in the data registry only (watch-V3).
var (
	persistents = placesOf(zk.WatcherPersistent)
	recursives  = placesOf(zk.WatcherPersistentRecursive)
)

// AddMode sets a watch of the given mode on path; false if that would exceed a limit.
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
	w, id := t.waitsOf(conn), t.needSpot(r, path)
	s := t.mu.spots.At(id)
	at := t.mu.find(s, w.number)
	if at == nil {
		at = t.mu.put(s, w.number)
		at.at = uint32(len(w.spots[r]))
		w.spots[r] = append(w.spots[r], id)
		t.mu.registries[r].total++
		t.weigh(w, s, 1)
	}
	if m == recursive && at.modes&recursive == 0 {
		at.modes |= m
		w.recursive++
		t.mu.recursive++
		t.weighBelow(w, s, 1)
		below := &t.mu.needCrowd(s).below
		if below.len() == 0 {
			t.mu.above.Add(strings.Clone(path), id)
		}
		below.add(w.number, len(t.mu.numbers.waits))
		return
	}
	at.modes |= m
}

// unlist removes a spot from the list of a connection; the last one moves to its place.
func (t *Table) unlist(w *waits, r Registry, at uint32) {
	list := w.spots[r]
	if !w.gone {
		t.mu.registries[r].total--
		t.weigh(w, t.mu.spots.At(list[at]), -1)
	}
	end := uint32(len(list) - 1)
	if last := list[end]; at != end {
		list[at] = last
		t.mu.find(t.mu.spots.At(last), w.number).at = at
	}
	w.spots[r] = list[:end]
}

// drop removes modes from a watcher. If none are left it also removes the watcher, its place in
// the connection's list, and the spot if nobody else waits there.
func (t *Table) drop(r Registry, path string, conn session.ConnID, m modes) bool {
	w, id := t.mu.byConn[conn], t.spot(r, path)
	if w == nil || id == 0 {
		return false
	}
	s := t.mu.spots.At(id)
	at := t.mu.find(s, w.number)
	if at == nil || at.modes&m == 0 {
		return false
	}
	if at.modes&m&recursive != 0 {
		w.recursive--
		t.mu.recursive--
		t.weighBelow(w, s, -1)
		t.unwatch(s, w.number)
	}
	at.modes &^= m
	if at.modes == 0 {
		t.unlist(w, r, at.at)
		t.take(r, id, w.number)
	}
	return true
}

// Forget ends all watches of a connection. It takes the same time however many there are.
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

// How many watches of connections that are gone are removed at a time: with each watch that is
// added, so that their number cannot grow without limit, and by Forget and by Sweep.
const (
	sweptWithOne = 2
	sweptAtOnce  = 256
)

// Sweep removes some of the watches that forgotten connections have left, and reports whether
// there are more.
func (t *Table) Sweep() (more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep(t.portion)
	return len(t.mu.gone) > 0
}

// Sweeping reports whether forgotten connections have left watches to be removed.
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
				end := uint32(len(g.spots[r]) - 1)
				id := g.spots[r][end]
				t.unwatch(t.mu.spots.At(id), g.number)
				t.unlist(g, Registry(r), end)
				t.take(Registry(r), id, g.number)
			}
		}
		t.mu.numbers.release(g)
		t.mu.gone = slices.Delete(t.mu.gone, 0, 1)
	}
}
