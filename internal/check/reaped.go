package check

import (
	"maps"
	"slices"

	"github.com/conclave-project/conclave/zk"
)

const propertyReaped = "reaped"

// What a leader deletes on its own:
//
//	R1  Only containers and znodes with a TTL, and none with children.
//	R2  A container only after it has had children.
//	R3  A znode with a TTL only when it was not changed for that long, by the clocks
//	    of the leaders that have created, changed and deleted it.
func (m *Model) reap(h *zk.TxnHeader, path string) error {
	s := m.nodes[path].now()
	switch {
	case !s.exists: // M2
	case s.kind != zk.OwnerContainer && s.kind != zk.OwnerTTL:
		return broken(propertyReaped, "R1: %s reaps %s, which is neither a container nor has a TTL", number(h.Zxid), path)
	case s.kind == zk.OwnerContainer && !m.nodes[path].hadChildren(s.czxid):
		return broken(propertyReaped, "R2: %s reaps the container %s, which never had children", number(h.Zxid), path)
	case s.kind == zk.OwnerTTL && h.Time-s.timeMs <= s.ttlMs:
		return broken(propertyReaped, "R3: %s reaps %s of %d ms, %d ms after it was changed", number(h.Zxid), path, s.ttlMs, h.Time-s.timeMs)
	}
	return m.remove(h.Zxid, path)
}

// hadChildren reports whether a znode has had children since it was created.
func (t *timeline) hadChildren(czxid zk.Zxid) bool {
	n := len(t.children)
	return n > 0 && t.children[n-1].zxid >= czxid
}

// Overdue returns a znode that a leader whose clock shows nowMs should have deleted by now;
// "" for none.
func (m *Model) Overdue(nowMs int64) string {
	for _, path := range slices.Sorted(maps.Keys(m.nodes)) {
		t := m.nodes[path]
		s := t.now()
		if count, _ := t.childrenWhen(m.last); !s.exists || count > 0 {
			continue
		}
		if s.kind == zk.OwnerContainer && t.hadChildren(s.czxid) || s.kind == zk.OwnerTTL && nowMs-s.timeMs > s.ttlMs {
			return path
		}
	}
	return ""
}
