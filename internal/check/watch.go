package check

import (
	"maps"
	"slices"
	"sort"

	"github.com/conclave-project/conclave/zk"
)

const propertyWatch = "watch"

// Watches follows one client's watches, by the bytes of its connections. One-shot watches
// are handled here, persistent ones in persist.go:
//
//	V1  An event comes for a watch that is armed, and ends it.
//	V2  An event is about a change that has happened, after the watch was armed.
//	V3  The event comes before any reply that shows its change.
//	V4  A change while the client was away is reported when the watch is set again;
//	    only a znode that was created and deleted may be missed by a watch for existence.
//
// A server has two tables, for data and for children; several watches of one path are one
// entry in a table. An entry may outlive the watches of its client (leaves).
type Watches struct {
	model   *Model
	who     *Asker // the client; it is not told of what it may not read
	armed   map[watchKey]armed
	staying map[persistent]int // with the index of the next change that each is to be told of

	left map[watchKey]bool // entries in armed that belong to no watch of the client any more

	rearming int                // setWatches requests without an answer yet
	wanted   map[watchKey]named // the watches that those requests name
	stay     map[persistent]bool
	told     map[watchKey]bool // reported while they were set again
	unwanted map[persistent]bool
	doubtful bool // the server is partitioned: it may report changes that did not happen
}

type watchKey struct {
	path     string
	children bool
}

// named says in which lists a setWatches names a path: in that for the data of a znode or
// its children, in that for a znode that was missing, or in both.
type named uint8

const (
	asThere named = 1 << iota
	asMissing
	asBoth = asThere | asMissing
)

// armed is an entry in a server's table, as far as the client knows.
type armed struct {
	since   zk.Zxid // of the tree that the client saw
	missing bool    // the znode did not exist: only its creation counts
}

// NewWatches returns the watches of a client that has set none.
func NewWatches(m *Model, who *Asker) *Watches {
	return &Watches{
		model: m, who: who, armed: map[watchKey]armed{}, staying: map[persistent]int{}, wanted: map[watchKey]named{}, stay: map[persistent]bool{},
		told: map[watchKey]bool{}, unwanted: map[persistent]bool{}, left: map[watchKey]bool{},
	}
}

// Armed says that a read was answered at zxid and has set its watch. children is true for
// getChildren, missing if the znode did not exist.
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

// Removed says that the client does not want a watch any more. The watch may fire before
// the server has learned of that, so call Removed after the server's answer.
func (w *Watches) Removed(path string, children bool) { delete(w.armed, watchKey{path, children}) }

// Connected says that there is a new connection: the server knows no watch yet. If it is
// partitioned, its events are not checked, nor what the client knew before: the next server
// is told what the client has made of it.
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

// Rearming says that the client sends a setWatches on a new connection. Watches that no
// setWatches names are gone.
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
	clear(w.staying) // those that no setWatches named are gone
	for key := range w.stay {
		w.staying[key] = w.model.after(zxid)
	}
	for key, as := range w.wanted {
		if _, here := w.armed[key]; !here && !w.told[key] { // a change that its client may not read has used it up
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

// String describes the key for people.
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

// firstChange returns the first zxid after that of the watch, up to and including to, at
// which the watch should have fired; 0 for none.
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

// firstState returns the first state after from, up to and including to, for which holds is
// true.
func (t *timeline) firstState(from, to zk.Zxid, holds func(*state) bool) zk.Zxid {
	n := sort.Search(len(t.states), func(i int) bool { return t.states[i].zxid > from })
	for ; n < len(t.states) && t.states[n].zxid <= to; n++ {
		if holds(&t.states[n]) {
			return t.states[n].zxid
		}
	}
	return 0
}

// Event says that an event has arrived.
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
		if !here && again { // a change that its client may not read has used it up
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
// watches of a path, and leaves an entry for the other one on the server.
//
// A client may have both: one for the data of a znode, and one for a znode that was
// missing. The reason is that the client is not told of the creation of a znode that it may
// not read, so its watch for the creation keeps waiting. When both are set again, the
// server reports the creation or the deletion, and keeps an entry for the other watch. But
// after such an event the client considers both as fired (clientsession: firedKinds; so
// does Java's, ZKWatchManager.materialize), and a later event for the entry belongs to none
// of its watches. Apache's server does the same (DataTree.setWatches).
//
// The entry exists nevertheless: it must fire once, in time, and for a change.
func (w *Watches) leaves(key watchKey, as named, kind zk.EventType) bool {
	switch {
	case kind == zk.EventNodeCreated && as == asBoth && !w.told[key]: // it exists unchanged: the watch for its data stays
	case kind == zk.EventNodeDeleted && as&asMissing != 0: // it does not exist: the watch for its creation stays
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

// useUp removes the watches that were used up, up to a zxid, by a change of which the
// client is not told because it may not read it.
func (w *Watches) useUp(to zk.Zxid) {
	for key, a := range w.armed {
		if at := w.firstChange(key, a, to); at != 0 && !w.who.may(w.model.nodes[key.path].when(at).acl, zk.PermRead) {
			delete(w.armed, key)
		}
	}
}

// happened checks V2. While watches are set again, events have no zxid.
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

// was reports whether a transaction has changed a znode in this way.
func (t *timeline) was(what what, zxid zk.Zxid) bool {
	return slices.ContainsFunc(t.of(zxid)[1:], func(s state) bool { return s.what == what })
}

func (t *timeline) childChanged(zxid zk.Zxid) bool {
	n := sort.Search(len(t.children), func(i int) bool { return t.children[i].zxid >= zxid })
	return n < len(t.children) && t.children[n].zxid == zxid
}

// Replied says that a reply with zxid has arrived on a connection whose watches are set.
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

// Ended says that the session is over, and its watches too.
func (w *Watches) Ended() {
	clear(w.armed)
	clear(w.left)
	clear(w.staying)
}
