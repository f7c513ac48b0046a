package watch

import (
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/zk"
)

// Fire handles an event at path, and appends the connections that wait for it, each once. The
// deletion of a znode fires the watches of both registries at its path. The change of its
// parent's children is a separate event, which the caller must fire.
func (t *Table) Fire(kind zk.EventType, path string, to []session.ConnID) []session.ConnID {
	t.mu.Lock()
	defer t.mu.Unlock()
	if kind != zk.EventNodeChildrenChanged {
		t.fireAt(Data, path)
		t.fireAbove(path)
	}
	if kind == zk.EventNodeChildrenChanged || kind == zk.EventNodeDeleted {
		t.fireAt(Child, path)
	}
	return t.mu.numbers.end(to)
}

// fireAt fires every watch at exactly this path. Standard ones are removed (watch-V1), all in
// one pass, since a popular path has thousands.
func (t *Table) fireAt(r Registry, path string) {
	id := t.spot(r, path)
	if id == 0 {
		return
	}
	s := t.mu.spots.At(id)
	stays := t.fire(r, &s.first)
	if s.crowd != 0 {
		c := t.mu.crowds[s.crowd]
		kept := c.more[:0]
		for _, w := range c.more {
			if t.fire(r, &w) {
				kept = append(kept, w)
			}
		}
		if len(kept) != len(c.more) {
			c.more = kept
			c.notePlaces()
		}
	}
	if !stays && !t.mu.promote(s) {
		t.remove(r, id)
		return
	}
	t.mu.disperse(s)
}

// fire adds the connection of a watcher to the event, and reports whether it remains a watcher.
func (t *Table) fire(r Registry, w *watcher) (stays bool) {
	waits := t.mu.numbers.waits[w.number]
	t.mu.numbers.tell(w.number)
	if w.modes &^= standard; w.modes != 0 {
		return true
	}
	t.unlist(waits, r, w.at)
	return false
}

// fireAbove fires the recursive watches at the ancestors of path.
func (t *Table) fireAbove(path string) {
	if t.mu.recursive == 0 || path == zk.RootPath || path == "" {
		return
	}
	t.mu.levels = t.mu.above.Above(zk.ParentPath(path), t.mu.levels[:0])
	for _, id := range t.mu.levels {
		t.mu.crowds[t.mu.spots.At(id).crowd].below.tell(&t.mu.numbers)
	}
}
