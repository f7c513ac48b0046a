package watch

import (
	"slices"

	"github.com/conclave-project/conclave/internal/session"
)

// Counts are the figures of wchs and mntr.
type Counts struct {
	Conns, Paths, Data int // of the data registry, as wchs counts; until they are swept, paths of connections that are gone as well
	All                int // watches in both registries
}

// Counts returns the sizes of the table.
func (t *Table) Counts() Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := Counts{
		Paths: len(t.mu.registries[Data].spots), Data: t.mu.registries[Data].total,
		All: t.mu.registries[Data].total + t.mu.registries[Child].total,
	}
	for _, w := range t.mu.byConn {
		if len(w.spots[Data]) > 0 {
			c.Conns++
		}
	}
	return c
}

// ByConn returns the paths each connection waits on in the data registry.
func (t *Table) ByConn() map[session.ConnID][]string {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[session.ConnID][]string{}
	for conn, w := range t.mu.byConn {
		var paths []string
		for _, s := range w.spots[Data] {
			paths = append(paths, s.path)
		}
		if slices.Sort(paths); paths != nil {
			out[conn] = paths
		}
	}
	return out
}

// ByPath returns who waits on each path of the data registry.
func (t *Table) ByPath() map[string][]session.ConnID {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[string][]session.ConnID{}
	for path, s := range t.mu.registries[Data].spots {
		for i := -1; i < len(s.more); i++ {
			w := &s.first
			if i >= 0 {
				w = &s.more[i]
			}
			if t.mu.byConn[w.conn].lists(Data, s, w) {
				out[path] = append(out[path], w.conn)
			}
		}
	}
	return out
}
