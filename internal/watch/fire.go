package watch

import (
	"slices"

	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/zk"
)

// Fire tells the table what happened at path and appends the connections that
// wait for it, each once. Deleting a znode counts for both registries at its path. The parent's changed
// children are an event of their own, given by the caller.
func (t *Table) Fire(kind zk.EventType, path string, to []session.ConnID) []session.ConnID {
	t.mu.Lock()
	defer t.mu.Unlock()
	start := len(to)
	switch kind {
	case zk.EventNodeChildrenChanged:
		return t.fireAt(Child, path, to, start)
	case zk.EventNodeDeleted:
		to = t.fireAt(Data, path, to, start)
		to = t.fireAbove(path, to, start)
		return t.fireAt(Child, path, to, start)
	}
	to = t.fireAt(Data, path, to, start)
	return t.fireAbove(path, to, start)
}

// fireAt fires every watch at exactly this path; standard ones go (watch-V1), all in
// one pass, since a popular path has thousands.
func (t *Table) fireAt(r Registry, path string, to []session.ConnID, start int) []session.ConnID {
	reg := &t.mu.registries[r]
	s := reg.spots[path]
	if s == nil {
		return to
	}
	told := toldOf(to[start:])
	kept := s.more[:0]
	fire := func(w watcher) (stays bool) {
		waits := t.mu.byConn[w.conn]
		if !waits.lists(r, s, &w) {
			return false
		}
		if !told.has(w.conn) {
			to = append(to, w.conn)
		}
		if w.modes &^= standard; w.modes == 0 {
			reg.total--
			t.unlist(waits, r, w.at, w.conn)
		}
		return w.modes != 0
	}
	first := s.first
	if !fire(first) {
		first = watcher{}
	}
	for _, w := range s.more {
		if fire(w) {
			w.modes &^= standard
			kept = append(kept, w)
		}
	}
	first.modes &^= standard
	if s.first = first; len(kept) != len(s.more) {
		s.more = kept
		s.notePlaces()
	}
	if s.first.conn == 0 && !s.promote() {
		t.remove(r, s)
	}
	return to
}

// told are the connections that an event has reached already (watch-V2).
type told struct {
	few  []session.ConnID
	many map[session.ConnID]struct{}
}

func toldOf(conns []session.ConnID) told {
	if len(conns) <= 16 {
		return told{few: conns}
	}
	many := make(map[session.ConnID]struct{}, len(conns))
	for _, c := range conns {
		many[c] = struct{}{}
	}
	return told{many: many}
}

func (d told) has(conn session.ConnID) bool {
	if d.many != nil {
		_, ok := d.many[conn]
		return ok
	}
	return slices.Contains(d.few, conn)
}

// fireAbove fires the recursive watches at the ancestors of path.
func (t *Table) fireAbove(path string, to []session.ConnID, start int) []session.ConnID {
	if t.mu.recursive == 0 {
		return to
	}
	if path == zk.RootPath || path == "" {
		return to
	}
	l := &t.mu.slots
	t.mu.levels = t.mu.above.Above(zk.ParentPath(path), t.mu.levels[:0])
	if len(t.mu.levels) == 0 {
		return to
	}
	l.begin()
	for _, conn := range to[start:] {
		if w := t.mu.byConn[conn]; w.numbered {
			l.told.add(w.slot)
		}
	}
	for _, s := range t.mu.levels {
		to = s.below.tell(l, to)
	}
	return to
}
