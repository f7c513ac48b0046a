package watch

import (
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/zk"
)

// Limits are how many watches there may be, counted as mntr counts them: a persistent watch
// that is not recursive counts twice, for the data and for the children. 0 is no limit.
// Existing watches stay, whatever the limits are.
type Limits struct {
	Session  int // conclave.sessionWatchesMax: per connection
	Identity int // conclave.identityWatchesMax: of all connections that have proved the same identity
	All      int // conclave.watchesMax

	// Refused is called with a connection that was refused a watch, after the table is
	// unlocked.
	Refused func(session.ConnID)
}

func (l *Limits) on() bool { return l.Session > 0 || l.Identity > 0 || l.All > 0 }

// owner counts the watches of all connections that have proved one identity.
type owner struct{ conns, watches int }

// Limit sets the limits, before the table is used.
func (t *Table) Limit(l Limits) { t.limits = l }

// Own sets the identities to which the watches of a connection belong, including existing
// watches. Forget ends that.
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

// owned is one identity to which the watches of a connection belong.
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

// count returns how many watches a connection has.
func (w *waits) count() int { return len(w.spots[Data]) + len(w.spots[Child]) }

// waitsOf returns the watches of a connection, and creates the list if there is none.
func (t *Table) waitsOf(conn session.ConnID) *waits {
	w := t.mu.byConn[conn]
	if w == nil {
		w = &waits{conn: conn}
		t.mu.numbers.give(w)
		t.mu.byConn[conn] = w
	}
	return w
}

// at returns the watcher of a connection at a path; nil if there is none.
func (t *Table) at(conn session.ConnID, r Registry, path string) *watcher {
	w, id := t.mu.byConn[conn], t.spot(r, path)
	if w == nil || id == 0 {
		return nil
	}
	return t.mu.find(t.mu.spots.At(id), w.number)
}

// fits reports whether the limits allow a connection the watches of some places at a path.
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

// refused reports a connection that may have no more watches. It is called without mu held.
func (t *Table) refused(conn session.ConnID) {
	if t.limits.Refused != nil {
		t.limits.Refused(conn)
	}
}
