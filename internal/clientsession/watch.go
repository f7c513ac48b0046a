package clientsession

import (
	"slices"
	"strings"

	"github.com/conclave-project/conclave/internal/invariant"
	"github.com/conclave-project/conclave/zk"
)

// WatchKind is what a watch waits for and how long it lives.
type WatchKind uint8

// The kinds of watch. The first three end with the event they were set for.
const (
	DataWatch  WatchKind = iota // set by getData, or exists on a znode that exists
	ExistWatch                  // set by exists on a znode that does not
	ChildWatch                  // set by getChildren
	PersistentWatch
	RecursiveWatch
	watchKinds
)

var watchKindNames = [watchKinds]string{"data", "exist", "child", "persistent", "recursive"}

// String returns the kind as text.
func (k WatchKind) String() string { return watchKindNames[k] }

// OneShot reports whether a watch of this kind ends with its first event.
func (k WatchKind) OneShot() bool { return k <= ChildWatch }

// Watch is a registered watch. The shell creates it with its path and kind; for exists, the
// reply decides between DataWatch and ExistWatch.
type Watch struct {
	Path  string // absolute
	Kind  WatchKind
	Owner any // belongs to the shell and is never read here

	registered bool
	stale      bool // persistent: events may have been missed since the last one
}

// slot holds the watches of one path.
type slot [watchKinds][]*Watch

// registry holds the watches of each path.
type registry struct {
	slots     map[string]*slot
	recursive int // number of recursive watches: if it is zero, no walk to the root is needed
}

func newRegistry() registry { return registry{slots: map[string]*slot{}} }

func (r *registry) add(w *Watch) {
	invariant.Check(!w.registered, "C5: a watch is registered once")
	s := r.slots[w.Path]
	if s == nil {
		s = &slot{}
		r.slots[w.Path] = s
	}
	s[w.Kind] = append(s[w.Kind], w)
	w.registered = true
	if w.Kind == RecursiveWatch {
		r.recursive++
	}
}

// remove removes w. It reports whether w was registered.
func (r *registry) remove(w *Watch) bool {
	if !w.registered {
		return false
	}
	s := r.slots[w.Path]
	i := slices.Index(s[w.Kind], w)
	invariant.Check(i >= 0, "C5: a registered watch is at its path")
	s[w.Kind] = slices.Delete(s[w.Kind], i, i+1)
	r.released(w.Path, s, w)
	return true
}

// take removes and returns all watches of one kind at path.
func (r *registry) take(path string, s *slot, kind WatchKind) []*Watch {
	taken := s[kind]
	s[kind] = nil
	for _, w := range taken {
		r.released(path, s, w)
	}
	return taken
}

// released updates the registry after w has been removed from s.
func (r *registry) released(path string, s *slot, w *Watch) {
	w.registered = false
	if w.Kind == RecursiveWatch {
		r.recursive--
	}
	if s.empty() {
		delete(r.slots, path)
	}
}

func (s *slot) empty() bool {
	for kind := range s {
		if len(s[kind]) > 0 {
			return false
		}
	}
	return true
}

// each calls f for every watch, by path, kind and age.
func (r *registry) each(f func(*Watch)) {
	for _, path := range r.paths() {
		for _, watches := range r.slots[path] {
			for _, w := range watches {
				f(w)
			}
		}
	}
}

// paths returns every watched path, sorted (clientsession-C6).
func (r *registry) paths() []string {
	paths := make([]string, 0, len(r.slots))
	for path := range r.slots {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return paths
}

// markStale records that the watches are not armed anywhere for a while.
func (r *registry) markStale() {
	for _, s := range r.slots {
		for _, kind := range []WatchKind{PersistentWatch, RecursiveWatch} {
			for _, w := range s[kind] {
				w.stale = true
			}
		}
	}
}

// firedKinds returns the kinds of watches at the event's path that it wakes.
func firedKinds(t zk.EventType) []WatchKind {
	switch t {
	case zk.EventNodeCreated, zk.EventNodeDataChanged:
		return []WatchKind{DataWatch, ExistWatch, PersistentWatch}
	case zk.EventNodeDeleted:
		return []WatchKind{DataWatch, ExistWatch, ChildWatch, PersistentWatch}
	case zk.EventNodeChildrenChanged:
		return []WatchKind{ChildWatch, PersistentWatch}
	}
	return nil
}

// notified wakes the watches of an event; one-shot watches end with it.
func (m *Machine) notified(e *Event) {
	m.seenMs = m.nowMs
	event := e.Watched
	kinds := firedKinds(event.Type)
	if s := m.registry.slots[event.Path]; s != nil {
		for _, kind := range kinds {
			woken := s[kind]
			if kind.OneShot() {
				woken = m.registry.take(event.Path, s, kind)
			}
			for _, w := range woken {
				m.notify(w, event)
			}
		}
	}
	if m.registry.recursive > 0 && len(kinds) > 0 && event.Type != zk.EventNodeChildrenChanged {
		m.notifyRecursive(event)
	}
}

// notify wakes one watch. If there was a gap, the mark of the gap comes before the event:
// before its answer, setWatches replays events that other watches at the path have missed.
func (m *Machine) notify(w *Watch, event zk.Event) {
	m.markGap(w)
	m.eventZxid = max(m.eventZxid, event.Zxid)
	m.emit(Effect{Kind: Notify, Watch: w, Watched: event})
}

// markGap tells a persistent watch that events may have been missed, once after each
// connection.
func (m *Machine) markGap(w *Watch) {
	if w.stale {
		w.stale = false
		m.emit(Effect{Kind: Notify, Watch: w, Watched: missed(w.Path)})
	}
}

// notifyRecursive wakes the recursive watches at the path and above it.
func (m *Machine) notifyRecursive(event zk.Event) {
	for path := event.Path; strings.HasPrefix(path, "/"); path = zk.ParentPath(path) {
		if s := m.registry.slots[path]; s != nil {
			for _, w := range s[RecursiveWatch] {
				m.notify(w, event)
			}
		}
		if path == zk.RootPath {
			return
		}
	}
}

// concludeWatches registers or drops the watch that a call was to arm, as its reply says.
func (m *Machine) concludeWatches(call *Call, code zk.Code) {
	if w := call.Watch; w != nil {
		switch {
		case code == zk.OK:
			m.registry.add(w)
		case code == zk.ErrNoNode && call.Request.Op == zk.OpExists:
			w.Kind = ExistWatch
			m.registry.add(w)
		}
	}
}

// concludeRemoval ends the watches that the program had removed, also if it has given the
// call up since: the server has none of them any more (clientsession-C5).
func (m *Machine) concludeRemoval(call *Call, code zk.Code) {
	if call.Request.Op == zk.OpRemoveWatches && call.Owner != nil && code == zk.OK {
		m.removed(call.Request.Path, call.Request.Watcher)
	}
}

// removedKinds says which watches a type of watcher means.
func removedKinds(t zk.WatcherType) []WatchKind {
	switch t {
	case zk.WatcherData:
		return []WatchKind{DataWatch, ExistWatch}
	case zk.WatcherChildren:
		return []WatchKind{ChildWatch}
	case zk.WatcherPersistent:
		return []WatchKind{PersistentWatch}
	case zk.WatcherPersistentRecursive:
		return []WatchKind{RecursiveWatch}
	}
	return []WatchKind{DataWatch, ExistWatch, ChildWatch, PersistentWatch, RecursiveWatch}
}

// removed ends the watches that the server has removed, each with the event
// that client libraries make for it.
func (m *Machine) removed(path string, t zk.WatcherType) {
	s := m.registry.slots[path]
	if s == nil {
		return
	}
	for _, kind := range removedKinds(t) {
		event := zk.Event{State: zk.StateSyncConnected, Path: path, Zxid: zk.NoZxid}
		switch kind {
		case ChildWatch:
			event.Type = zk.EventChildWatchRemoved
		case PersistentWatch, RecursiveWatch:
			event.Type = zk.EventPersistentWatchRemoved
		default:
			event.Type = zk.EventDataWatchRemoved
		}
		for _, w := range m.registry.take(path, s, kind) {
			m.emit(Effect{Kind: Notify, Watch: w, Watched: event})
			if !w.Kind.OneShot() {
				m.emit(Effect{Kind: EndWatch, Watch: w, Err: zk.ErrNoWatcher})
			}
		}
	}
}
