package tree

import (
	"slices"
	"strings"

	"github.com/conclave-project/conclave/zk"
)

// ownedLists keeps the znodes that are deleted automatically: ephemerals by session,
// containers, TTL znodes. Each znode knows its place in its list, so that it can be removed by
// moving the last one to its place.
type ownedLists struct {
	sessions   map[zk.SessionID][]uint32
	bytes      map[zk.SessionID]int64 // of the paths of those ephemerals
	containers []uint32
	ttls       []uint32
	ephemerals int
}

func (o *ownedLists) init() {
	o.sessions, o.bytes = map[zk.SessionID][]uint32{}, map[zk.SessionID]int64{}
}

// own adds a znode to the list that its stored owner requires.
func (t *Tree) own(id uint32) {
	n := t.restOf(t.nodes.At(id))
	switch zk.KindOfOwner(n.owner, t.opts.ExtendedTypes) {
	case zk.OwnerSession:
		session := zk.SessionID(n.owner)
		list := t.owned.sessions[session]
		n.place = uint32(len(list))
		t.owned.sessions[session] = append(list, id)
		t.owned.bytes[session] += t.pathBytes(id)
		t.owned.ephemerals++
	case zk.OwnerContainer:
		n.place = uint32(len(t.owned.containers))
		t.owned.containers = append(t.owned.containers, id)
	case zk.OwnerTTL:
		n.place = uint32(len(t.owned.ttls))
		t.owned.ttls = append(t.owned.ttls, id)
	}
}

func (t *Tree) disown(id uint32) {
	n := t.restOf(t.nodes.At(id))
	switch zk.KindOfOwner(n.owner, t.opts.ExtendedTypes) {
	case zk.OwnerSession:
		session := zk.SessionID(n.owner)
		if list := t.leave(t.owned.sessions[session], n.place); len(list) > 0 {
			t.owned.sessions[session] = list
			t.owned.bytes[session] -= t.pathBytes(id)
		} else {
			delete(t.owned.sessions, session)
			delete(t.owned.bytes, session)
		}
		t.owned.ephemerals--
	case zk.OwnerContainer:
		t.owned.containers = t.leave(t.owned.containers, n.place)
	case zk.OwnerTTL:
		t.owned.ttls = t.leave(t.owned.ttls, n.place)
	}
}

func (t *Tree) leave(list []uint32, place uint32) []uint32 {
	last := list[len(list)-1]
	list[place] = last
	t.needRest(t.nodes.At(last)).place = place
	return list[:len(list)-1]
}

// Ephemerals returns the paths of a session's ephemerals that start with
// prefix, sorted.
func (t *Tree) Ephemerals(session zk.SessionID, prefix string) []string {
	var paths []string
	for _, id := range t.owned.sessions[session] {
		if path := t.path(id); strings.HasPrefix(path, prefix) {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// EphemeralsOf returns how many ephemerals a session owns.
func (t *Tree) EphemeralsOf(session zk.SessionID) int { return len(t.owned.sessions[session]) }

// ephemeralBytes is what an ephemeral needs in addition to its path when its session ends: for
// the znode, two events and a place in the transaction.
const ephemeralBytes = 64

// EphemeralCost returns how many bytes an ephemeral counts towards what a session may have.
func EphemeralCost(path string) int64 { return int64(len(path)) + ephemeralBytes }

// EphemeralBytes returns the total of a session's ephemerals, counted as in EphemeralCost.
func (t *Tree) EphemeralBytes(session zk.SessionID) int64 {
	return t.owned.bytes[session] + ephemeralBytes*int64(t.EphemeralsOf(session))
}

// OwnsEphemerals reports whether a session owns any ephemerals.
func (t *Tree) OwnsEphemerals(session zk.SessionID) bool { return len(t.owned.sessions[session]) > 0 }

// EphemeralCount returns the number of all ephemerals.
func (t *Tree) EphemeralCount() int { return t.owned.ephemerals }

// EphemeralOwners returns the sessions that own ephemerals, sorted.
func (t *Tree) EphemeralOwners() []zk.SessionID {
	owners := make([]zk.SessionID, 0, len(t.owned.sessions))
	for session := range t.owned.sessions {
		owners = append(owners, session)
	}
	slices.Sort(owners)
	return owners
}

// reapLooks is how many containers and TTL znodes one call of Reapable checks.
const reapLooks = 10_000

// Reaps returns how many containers and TTL znodes there are: Reapable begins after the last of
// them.
func (t *Tree) Reaps() int { return len(t.owned.containers) + len(t.owned.ttls) }

// Reapable checks containers and TTL znodes backwards from the place at, but only some thousand
// of them. It returns the paths of those that may be deleted at nowMs: up to limit paths, and
// not much more than bytesMax bytes of them. A znode may be deleted if it has no children and
// is a container that had some, or a container that never had any for unusedMs (0 means never),
// or a TTL znode unchanged for its TTL. The next call continues at the place that it returns,
// until that is 0. What is deleted between two calls hides none of the others, because the last
// one takes the place of one that is removed.
func (t *Tree) Reapable(at int, nowMs, unusedMs int64, limit int, bytesMax int64) (paths []string, next int) {
	at = min(at, t.Reaps())
	for end := max(0, at-reapLooks); at > end && len(paths) < limit && bytesMax > 0; {
		at--
		if id, may := t.reapable(at, nowMs, unusedMs); may {
			path := t.path(id)
			paths, bytesMax = append(paths, path), bytesMax-int64(len(path))
		}
	}
	slices.Sort(paths)
	return paths, at
}

// reapable checks the znode at a place: containers come first, then TTL znodes.
func (t *Tree) reapable(at int, nowMs, unusedMs int64) (id uint32, may bool) {
	containers := len(t.owned.containers)
	if at < containers {
		id = t.owned.containers[at]
	} else {
		id = t.owned.ttls[at-containers]
	}
	n := t.nodes.At(id)
	r := t.restOf(n)
	_, mtime, _ := t.written(n)
	switch {
	case r.children > 0:
		return id, false
	case at < containers:
		return id, r.cversion > 0 || unusedMs > 0 && nowMs-mtime > unusedMs
	}
	return id, nowMs-mtime > zk.TTLOf(r.owner)
}
