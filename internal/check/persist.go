package check

import (
	"sort"
	"strings"

	"github.com/conclave-project/conclave/zk"
)

// A persistent watch is told of every change at its path, or, if it is recursive, at and
// below it:
//
//	V5  An event reports nothing that its client may not read.
//	V6  A persistent watch misses no change while its connection lasts, and learns of
//	    them in order, each before any reply that shows it.
//
// persistent is such a watch of a client.
type persistent struct {
	path      string
	recursive bool
}

// covers reports whether a watch waits for a change.
func (p persistent) covers(c *occurrence) bool {
	if !p.recursive {
		return c.path == p.path
	}
	return c.kind != zk.EventNodeChildrenChanged &&
		(c.path == p.path || p.path == zk.RootPath || strings.HasPrefix(c.path, p.path+"/"))
}

// String describes the watch for people.
func (p persistent) String() string {
	if p.recursive {
		return "all at and below " + p.path
	}
	return "all at " + p.path
}

// Added says that an addWatch was answered at zxid.
func (w *Watches) Added(path string, mode zk.WatchMode, zxid zk.Zxid) {
	if w.doubtful {
		return
	}
	key := persistent{path, mode == zk.WatchPersistentRecursive}
	if _, here := w.staying[key]; !here || w.unwanted[key] {
		w.staying[key] = w.model.after(zxid)
	}
	delete(w.unwanted, key)
}

// Unwanted says that a client does not want a watch any more. Until the server has learned
// of that, it may report changes, but need not.
func (w *Watches) Unwanted(path string, mode zk.WatchMode) {
	w.unwanted[persistent{path, mode == zk.WatchPersistentRecursive}] = true
}

// after returns the index of the first change after a zxid.
func (m *Model) after(zxid zk.Zxid) int {
	return sort.Search(len(m.changes), func(i int) bool { return m.changes[i].zxid > zxid })
}

// TakenOff says that a removeWatches was answered.
func (w *Watches) TakenOff(path string, kind zk.WatcherType) {
	if kind == zk.WatcherAny || kind == zk.WatcherPersistent {
		delete(w.staying, persistent{path: path})
	}
	if kind == zk.WatcherAny || kind == zk.WatcherPersistentRecursive {
		delete(w.staying, persistent{path: path, recursive: true})
	}
	if kind == zk.WatcherAny || kind == zk.WatcherData {
		delete(w.armed, watchKey{path: path})
	}
	if kind == zk.WatcherAny || kind == zk.WatcherChildren {
		delete(w.armed, watchKey{path: path, children: true})
	}
}

// due returns the index of the next change that a watch must be told of.
func (w *Watches) due(key persistent, from int) int {
	for ; from < len(w.model.changes); from++ {
		if c := &w.model.changes[from]; key.covers(c) && w.who.may(c.acl, zk.PermRead) {
			break
		}
	}
	return from
}

// stayed handles an event for the persistent watches; it reports whether any of them waits
// for such events.
func (w *Watches) stayed(e *zk.Event) (waited bool, err error) {
	if e.Zxid <= 0 {
		return false, nil
	}
	told := occurrence{zxid: e.Zxid, kind: e.Type, path: e.Path}
	for _, key := range w.stays() {
		if !key.covers(&told) {
			continue
		}
		if w.unwanted[key] {
			waited = true
			continue
		}
		at := w.due(key, w.staying[key])
		if at == len(w.model.changes) {
			return false, broken(propertyWatch, "V6: %v %s of %s comes for %s, and nothing has changed", e.Type, e.Path, number(e.Zxid), key)
		}
		if c := &w.model.changes[at]; c.zxid != e.Zxid || c.kind != e.Type || c.path != e.Path {
			return false, broken(propertyWatch, "V6: %v %s of %s comes for %s, where %v %s of %s should",
				e.Type, e.Path, number(e.Zxid), key, c.kind, c.path, number(c.zxid))
		}
		w.staying[key], waited = at+1, true
	}
	return waited, nil
}

// staysTold checks that the persistent watches were told of every change up to a zxid.
func (w *Watches) staysTold(zxid zk.Zxid) error {
	for _, key := range w.stays() {
		at := w.due(key, w.staying[key])
		w.staying[key] = at // changes before it concern no watch
		if w.unwanted[key] {
			continue
		}
		if at < len(w.model.changes) && w.model.changes[at].zxid <= zxid {
			c := &w.model.changes[at]
			return broken(propertyWatch, "V6: a reply shows %s, and %v %s of %s has not come for %s", number(zxid), c.kind, c.path, number(c.zxid), key)
		}
	}
	return nil
}

// stays returns the persistent watches, in order.
func (w *Watches) stays() []persistent {
	keys := make([]persistent, 0, len(w.staying))
	for key := range w.staying {
		keys = append(keys, key)
	}
	sort.Slice(keys, func(i, j int) bool {
		return keys[i].path < keys[j].path || keys[i].path == keys[j].path && !keys[i].recursive && keys[j].recursive
	})
	return keys
}

// leaks checks that the client may read what an event reports (V5).
func (w *Watches) leaks(e *zk.Event) error {
	hidden := false
	for i := w.model.after(e.Zxid - 1); i < len(w.model.changes) && w.model.changes[i].zxid == e.Zxid; i++ {
		if c := &w.model.changes[i]; c.kind == e.Type && c.path == e.Path {
			if w.who.may(c.acl, zk.PermRead) {
				return nil
			}
			hidden = true
		}
	}
	if !hidden {
		return nil // it has not happened, which is V2
	}
	return broken(propertyWatch, "V5: %v %s of %s comes to %v, who may not read it", e.Type, e.Path, number(e.Zxid), w.who.Identities)
}
