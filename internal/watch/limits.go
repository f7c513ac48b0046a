package watch

import (
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/zk"
)

// Limits are how many watches there may be, as mntr counts them: a persistent one, which is
// not recursive, counts twice, for the data and for the children. 0 is no limit. What is
// there stays, whatever the limits say.
type Limits struct {
	Session  int // conclave.sessionWatchesMax: of one connection
	Identity int // conclave.identityWatchesMax: of all connections that have proved one identity
	All      int // conclave.watchesMax

	// Refused is told of a connection that was refused one, after the table is free again.
	Refused func(session.ConnID)
}

func (l *Limits) on() bool { return l.Session > 0 || l.Identity > 0 || l.All > 0 }

// owner is an identity with the watches of all connections that have proved it.
type owner struct{ conns, watches int }

// Limit sets the limits, before the table is used.
func (t *Table) Limit(l Limits) { t.limits = l }

// Own says whose watches those of a connection are: its former ones, too. Forget ends that.
func (t *Table) Own(conn session.ConnID, who []zk.Identity) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.waitsOf(conn)
	before := w.owners
	w.owners = nil
	for _, id := range who {
		o := t.mu.owners[id]
		if o == nil {
			o = &owner{}
			t.mu.owners[id] = o
		}
		o.conns++
		o.watches += w.count()
		w.owners = append(w.owners, owned{id, o})
	}
	t.disown(w, before)
}

// owned is one of those to whom the watches of a connection belong.
type owned struct {
	id zk.Identity
	*owner
}

func (t *Table) disown(w *waits, owners []owned) {
	for _, o := range owners {
		o.watches -= w.count()
		if o.conns--; o.conns == 0 {
			delete(t.mu.owners, o.id)
		}
	}
}

// count is how many watches a connection has.
func (w *waits) count() int { return len(w.spots[Data]) + len(w.spots[Child]) }

// waitsOf returns what a connection has, and begins it if that is nothing.
func (t *Table) waitsOf(conn session.ConnID) *waits {
	w := t.mu.byConn[conn]
	if w == nil {
		w = &waits{conn: conn}
		t.mu.numbers.give(w)
		t.mu.byConn[conn] = w
	}
	return w
}

// at returns how a connection waits on a path, nil if it does not.
func (t *Table) at(conn session.ConnID, r Registry, path string) *watcher {
	w, id := t.mu.byConn[conn], t.spot(r, path)
	if w == nil || id == 0 {
		return nil
	}
	return t.mu.find(t.mu.spots.At(id), w.number)
}

// fits reports whether a connection may have watches at all of some places on a path.
func (t *Table) fits(conn session.ConnID, path string, places []place) bool {
	if !t.limits.on() {
		return true
	}
	n := 0
	for _, p := range places {
		if t.at(conn, p.registry, path) == nil {
			n++
		}
	}
	within := func(have, most int) bool { return n == 0 || most <= 0 || have+n <= most }
	w := t.waitsOf(conn)
	fits := within(w.count(), t.limits.Session) &&
		within(t.mu.registries[Data].total+t.mu.registries[Child].total, t.limits.All)
	for _, o := range w.owners {
		fits = fits && within(o.watches, t.limits.Identity)
	}
	return fits
}

// refused tells of a connection that may have no more. Called without mu held.
func (t *Table) refused(conn session.ConnID) {
	if t.limits.Refused != nil {
		t.limits.Refused(conn)
	}
}
