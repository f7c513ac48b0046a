package watch

import (
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/zk"
)

// place is a registry and the modes of a watch in it.
type place struct {
	registry Registry
	modes    modes
}

// placesOf returns where the watches of a type are.
func placesOf(kind zk.WatcherType) []place {
	switch kind {
	case zk.WatcherData:
		return []place{{Data, standard}}
	case zk.WatcherChildren:
		return []place{{Child, standard}}
	case zk.WatcherPersistent:
		return []place{{Data, persistent}, {Child, persistent}}
	case zk.WatcherPersistentRecursive:
		return []place{{Data, recursive}}
	}
	return []place{{Data, standard | persistent | recursive}, {Child, standard | persistent | recursive}}
}

// Has reports whether a connection has a watch of the type at exactly path.
func (t *Table) Has(conn session.ConnID, kind zk.WatcherType, path string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range placesOf(kind) {
		if at := t.at(conn, p.registry, path); at != nil && at.modes&p.modes != 0 {
			return true
		}
	}
	return false
}

// Remove removes a connection's watches of the type at exactly path, and reports whether there
// were any.
func (t *Table) Remove(conn session.ConnID, kind zk.WatcherType, path string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	found := false
	for _, p := range placesOf(kind) {
		if t.drop(p.registry, path, conn, p.modes) {
			found = true
		}
	}
	return found
}
