package check

import (
	"maps"
	"slices"
	"sort"

	"github.com/conclave-project/conclave/zk"
)

const propertyWatch = "watch"

// Watches follows one client's watches, at the bytes of its connections; those of
// one shot here, those that stay in persist.go:
//
//	V1  An event comes for a watch that is armed, and ends it.
//	V2  An event is about a change that has happened, after the watch was armed.
//	V3  The event comes before any reply that shows its change.
//	V4  A change while the client was away is told when the watch is set again;
//	    only what has come and gone may be missed by a watch for existence.
//
// A server keeps two tables, for data and for children; several watches of one
// path are one entry there. An entry may outlive the watches of its client (leaves).
type Watches struct {
	model   *Model
	who     *Asker // whose they are: what it may not read it is not told of
	armed   map[watchKey]armed
	staying map[persistent]int // and the place in the model's changes up to which each was told

	left map[watchKey]bool // of armed: no watch of the client stands for it any more

	rearming int                // setWatches requests that are not answered
	wanted   map[watchKey]named // that they name
	stay     map[persistent]bool
	told     map[watchKey]bool // while they are set again
	unwanted map[persistent]bool
	doubtful bool // the server is partitioned: it may report changes that are none
}

type watchKey struct {
	path     string
	children bool
}

// named says in which lists a setWatches names a path: one for the data of a znode, or its
// children, the other for a znode that was missing.
type named uint8

const (
	asThere named = 1 << iota
	asMissing
	asBoth = asThere | asMissing
)

// armed is an entry of a server's table, as the client may think of it.
type armed struct {
	since   zk.Zxid // the tree that the client saw
	missing bool    // the znode was not there: only its creation counts
}

// NewWatches returns the watches of a client that has set none.
func NewWatches(m *Model, who *Asker) *Watches {
	return &Watches{
		model: m, who: who, armed: map[watchKey]armed{}, staying: map[persistent]int{}, wanted: map[watchKey]named{}, stay: map[persistent]bool{},
		told: map[watchKey]bool{}, unwanted: map[persistent]bool{}, left: map[watchKey]bool{},
	}
}

// Armed says that a read was answered at zxid and has set its watch: children is
// true for getChildren, missing if there was no such znode.
func (w *Watches) Armed(path string, children, missing bool, zxid zk.Zxid) {
	if w.doubtful {
		return
	}
	key := watchKey{path, children}
	delete(w.left, key)
	if _, here := w.armed[key]; !here {
		w.armed[key] = armed{zxid, missing}
	}
}

// Removed says that the client does not want a watch any more. It may fire again
// before the server has learned of it, so it must be told after the answer.
func (w *Watches) Removed(path string, children bool) { delete(w.armed, watchKey{path, children}) }

// Connected says that there is a new connection: the server knows no watch yet. If
// it is partitioned, what it tells is not looked at, and what the client knew before is
// looked at no more: the next server is told what the client has made of it.
func (w *Watches) Connected(readOnly bool) {
	if w.doubtful = readOnly; readOnly {
		w.Ended()
	}
	for key := range w.unwanted {
		delete(w.staying, key)
	}
	clear(w.unwanted)
	for key := range w.left {
		delete(w.armed, key)
	}
	clear(w.left)
	w.rearming, w.wanted, w.stay, w.told = 0, map[watchKey]named{}, map[persistent]bool{}, map[watchKey]bool{}
}

// Rearming says that the client sends a setWatches on a new connection. What
// none of them names is gone.
func (w *Watches) Rearming(set *zk.SetWatches) {
	w.rearming++
	for _, path := range set.Exist {
		w.wanted[watchKey{path: path}] |= asMissing
	}
	for _, path := range set.Data {
		w.wanted[watchKey{path: path}] |= asThere
	}
	for _, path := range set.Child {
		w.wanted[watchKey{path: path, children: true}] |= asThere
	}
	for _, path := range set.Persistent {
		w.stay[persistent{path: path}] = true
	}
	for _, path := range set.Recursive {
		w.stay[persistent{path: path, recursive: true}] = true
	}
}

// Rearmed says that a setWatches was answered at zxid.
func (w *Watches) Rearmed(zxid zk.Zxid) error {
	if w.rearming--; w.rearming > 0 || w.doubtful {
		return nil
	}
	clear(w.staying) // what none of them names is gone
	for key := range w.stay {
		w.staying[key] = w.model.after(zxid)
	}
	for key, as := range w.wanted {
		if _, here := w.armed[key]; !here && !w.told[key] { // it was used up by what its client may not read
			w.armed[key] = armed{zxid, as == asMissing}
		}
	}
	for _, key := range w.keys() {
		a := w.armed[key]
		as, wanted := w.wanted[key]
		s := w.model.nodes[key.path].when(zxid)
		switch at := w.firstChange(key, a, zxid); {
		case !wanted:
			delete(w.armed, key)
		case at != 0 && (!a.missing || s.exists):
			return broken(propertyWatch, "V4: %s has changed at %s while the client was away, and no event comes", key, number(at))
		case as == asBoth && !w.left[key] && !w.told[key]:
			return broken(propertyWatch, "V4: %s is there or not, and neither a watch for its data nor one for its existence says so", key)
		default:
			w.armed[key] = armed{zxid, a.missing}
		}
	}
	return nil
}

// String is the key for people.
func (k watchKey) String() string {
	if k.children {
		return "the children of " + k.path
	}
	return k.path
}

func (w *Watches) keys() []watchKey {
	return slices.SortedFunc(maps.Keys(w.armed), func(a, b watchKey) int {
		switch {
		case a.path < b.path || a.path == b.path && !a.children && b.children:
			return -1
		case a == b:
			return 0
		}
		return 1
	})
}

// firstChange is the first zxid after that of the watch, and not after to, at
// which it should have fired; 0 if none.
func (w *Watches) firstChange(key watchKey, a armed, to zk.Zxid) zk.Zxid {
	t := w.model.nodes[key.path]
	if t == nil {
		return 0
	}
	if key.children {
		n := sort.Search(len(t.children), func(i int) bool { return t.children[i].zxid > a.since })
		at := zk.Zxid(0)
		if n < len(t.children) && t.children[n].zxid <= to {
			at = t.children[n].zxid
		}
		if gone := t.firstState(a.since, to, func(s *state) bool { return !s.exists }); gone != 0 && (at == 0 || gone < at) {
			at = gone
		}
		return at
	}
	if a.missing {
		return t.firstState(a.since, to, func(s *state) bool { return s.what == wasCreated })
	}
	return t.firstState(a.since, to, func(s *state) bool { return s.what != wasGuarded })
}

// firstState finds the first state after from, and not after to, that holds.
func (t *timeline) firstState(from, to zk.Zxid, holds func(*state) bool) zk.Zxid {
	n := sort.Search(len(t.states), func(i int) bool { return t.states[i].zxid > from })
	for ; n < len(t.states) && t.states[n].zxid <= to; n++ {
		if holds(&t.states[n]) {
			return t.states[n].zxid
		}
	}
	return 0
}

// Event says that an event has come.
func (w *Watches) Event(e *zk.Event) error {
	if w.doubtful {
		return nil
	}
	if e.Zxid > 0 {
		if err := w.leaks(e); err != nil {
			return err
		}
		w.useUp(e.Zxid - 1)
	}
	stayed, err := w.stayed(e)
	if err != nil {
		return err
	}
	data, children := watchKey{path: e.Path}, watchKey{path: e.Path, children: true}
	var ended []watchKey
	left := false
	for _, key := range []watchKey{data, children} {
		a, here := w.armed[key]
		as, again := w.wanted[key]
		again = again && w.rearming > 0 && e.Zxid <= 0
		if !here && again { // it was used up by what its client may not read
			a, here = armed{missing: as == asMissing}, true
		}
		switch {
		case again && w.leaves(key, as, e.Type):
			left = true
		case !here:
		case e.Type == zk.EventNodeDeleted && !a.missing,
			e.Type == zk.EventNodeChildrenChanged && key.children,
			e.Type == zk.EventNodeCreated && !key.children,
			e.Type == zk.EventNodeDataChanged && !key.children:
			ended = append(ended, key)
		}
	}
	if len(ended) == 0 && !stayed && !left {
		return broken(propertyWatch, "V1: %v %s at %s comes, and no such watch is set", e.Type, e.Path, number(e.Zxid))
	}
	for _, key := range ended {
		if err := w.happened(e, key); err != nil {
			return err
		}
		delete(w.armed, key)
		delete(w.left, key)
		w.told[key] = w.rearming > 0
	}
	return nil
}

// leaves reports whether an event that comes while watches are set again answers one of two
// watches of a path, and leaves the server with an entry for the other. A client may have
// both, for the data of a znode and for one that was missing: it was not told of the creation
// of what it may not read, and its watch for that waits on. When both are set again the server
// tells of the creation, or the deletion, and keeps an entry for the other watch. But with
// such an event a client takes both for spent (clientsession: firedKinds; so does Java's,
// ZKWatchManager.materialize), and what the entry brings later comes for no watch of its own.
// Apache's server does the same (DataTree.setWatches).
//
// The entry is there all the same: it must fire once, in time, and for a change.
func (w *Watches) leaves(key watchKey, as named, kind zk.EventType) bool {
	switch {
	case kind == zk.EventNodeCreated && as == asBoth && !w.told[key]: // it is there as it was: that for its data
	case kind == zk.EventNodeDeleted && as&asMissing != 0: // it is not there: that for its creation
		if as == asBoth {
			delete(w.armed, key)
		}
		w.wanted[key] = asMissing
	default:
		return false
	}
	w.left[key] = true
	return as == asBoth
}

// useUp takes away what was used up, up to a zxid, by a change of which its client
// is not told, for it may not read it.
func (w *Watches) useUp(to zk.Zxid) {
	for key, a := range w.armed {
		if at := w.firstChange(key, a, to); at != 0 && !w.who.may(w.model.nodes[key.path].when(at).acl, zk.PermRead) {
			delete(w.armed, key)
		}
	}
}

// happened checks V2. While watches are set again events carry no zxid.
func (w *Watches) happened(e *zk.Event, key watchKey) error {
	if e.Zxid <= 0 {
		if w.rearming == 0 {
			return broken(propertyWatch, "V2: %v %s comes without a zxid, and no watches are being set again", e.Type, e.Path)
		}
		return nil
	}
	a := w.armed[key]
	t := w.model.nodes[e.Path]
	var real bool
	switch e.Type {
	case zk.EventNodeCreated:
		real = t.was(wasCreated, e.Zxid)
	case zk.EventNodeDataChanged:
		real = t.was(wasChanged, e.Zxid)
	case zk.EventNodeDeleted:
		real = t.was(wasDeleted, e.Zxid)
	case zk.EventNodeChildrenChanged:
		real = t != nil && t.childChanged(e.Zxid)
	}
	if !real || e.Zxid <= a.since {
		return broken(propertyWatch, "V2: %v %s of %s comes for a watch set at %s; it has not happened then", e.Type, e.Path, number(e.Zxid), number(a.since))
	}
	if at := w.firstChange(key, a, e.Zxid-1); at != 0 {
		return broken(propertyWatch, "V1: %v %s of %s comes, and the change of %s was not told", e.Type, e.Path, number(e.Zxid), number(at))
	}
	return nil
}

// was reports whether a transaction has changed a znode so.
func (t *timeline) was(what what, zxid zk.Zxid) bool {
	return slices.ContainsFunc(t.of(zxid)[1:], func(s state) bool { return s.what == what })
}

func (t *timeline) childChanged(zxid zk.Zxid) bool {
	n := sort.Search(len(t.children), func(i int) bool { return t.children[i].zxid >= zxid })
	return n < len(t.children) && t.children[n].zxid == zxid
}

// Replied says that a reply of zxid has come on a connection whose watches are set.
func (w *Watches) Replied(zxid zk.Zxid) error {
	if w.rearming > 0 || zxid <= 0 || w.doubtful {
		return nil
	}
	if err := w.staysTold(zxid); err != nil {
		return err
	}
	w.useUp(zxid)
	late, first := watchKey{}, zk.Zxid(0)
	for key, a := range w.armed {
		if at := w.firstChange(key, a, zxid); at != 0 && (first == 0 || at < first || at == first && key.path < late.path) {
			late, first = key, at
		}
	}
	if first != 0 {
		return broken(propertyWatch, "V3: a reply shows %s, and the event of %s for %s has not come", number(zxid), number(first), late)
	}
	return nil
}

// Ended says that the session is over, its watches with it.
func (w *Watches) Ended() {
	clear(w.armed)
	clear(w.left)
	clear(w.staying)
}
