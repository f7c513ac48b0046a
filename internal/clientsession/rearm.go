package clientsession

import (
	"fmt"

	"github.com/conclave-project/conclave/zk"
)

// rearm sends the watches to the server of a new connection, in requests of
// limited size. setWatches2 came with 3.6 and an older server closes the
// connection on it, so setWatches is used while it suffices.
func (m *Machine) rearm() {
	var request *zk.Request
	size := 0
	send := func() {
		if request != nil {
			m.rearming++
			m.transmit(request)
		}
		request, size = nil, 0
	}
	for _, path := range m.registry.paths() {
		for kind, watches := range m.registry.slots[path] {
			if len(watches) == 0 {
				continue
			}
			if size+4+len(path) > m.config.RearmBytesMax {
				send()
			}
			if request == nil {
				set := &zk.SetWatches{RelativeZxid: m.sinceZxid}
				request = &zk.Request{Op: zk.OpSetWatches, Xid: zk.XidSetWatches, SetWatches: set}
			}
			addRearmed(request, path, WatchKind(kind))
			size += 4 + len(path)
		}
	}
	send()
}

func addRearmed(r *zk.Request, path string, kind WatchKind) {
	set := r.SetWatches
	switch kind {
	case DataWatch:
		set.Data = append(set.Data, path)
	case ExistWatch:
		set.Exist = append(set.Exist, path)
	case ChildWatch:
		set.Child = append(set.Child, path)
	case PersistentWatch:
		set.Persistent = append(set.Persistent, path)
		r.Op = zk.OpSetWatches2
	case RecursiveWatch:
		set.Recursive = append(set.Recursive, path)
		r.Op = zk.OpSetWatches2
	}
}

// repliedRearm waits for the last answer; then every persistent watch is told
// that events may be missing, unless an event has told it before (notify):
// setWatches replays them for the other kinds only. What is read after that is
// complete, the watch being armed.
func (m *Machine) repliedRearm(e *Event) {
	if e.Code != zk.OK {
		m.lose(fmt.Errorf("setting the watches again: %w", e.Code))
		return
	}
	if m.rearming == 0 {
		return
	}
	m.rearming--
	if m.rearming > 0 {
		return
	}
	m.registry.each(m.markGap)
}

// missed is the event that tells a persistent watch of a gap.
func missed(path string) zk.Event {
	return zk.Event{Type: zk.EventNone, State: zk.StateSyncConnected, Path: path, Zxid: zk.NoZxid}
}

// forget drops a watch without a message to the server, which would fire it for
// nobody at most.
func (m *Machine) forget(e *Event) { m.registry.remove(e.Watch) }

// unwatch drops a watch. A one-shot watch may stay on the server, where it
// fires at most once; a persistent one is removed there when it was the last
// of its kind at its path.
func (m *Machine) unwatch(e *Event) {
	w := e.Watch
	if m.registry.remove(w) && !w.Kind.OneShot() && m.phase == attached {
		m.disarm(w.Path, w.Kind)
	}
}

// disarm takes a kind of persistent watch at a path off the server, unless somebody
// has one of that kind, or a request for one is on its way, which would be removed
// with it.
func (m *Machine) disarm(path string, kind WatchKind) {
	alone := true
	if s := m.registry.slots[path]; s != nil {
		if len(s[kind]) > 0 {
			return
		}
		alone = false
	}
	for i := range m.pending.len() {
		call := m.pending.at(i)
		switch {
		case call.Watch == nil || call.Watch.Path != path:
		case call.Watch.Kind == kind:
			call.inherits = true
			return
		default:
			alone = false
		}
	}
	m.send(&Call{Request: zk.Request{Op: zk.OpRemoveWatches, Path: path, Watcher: removerOf(kind, alone)}})
}

// disinherit takes off the server what a call that has failed would have taken over.
func (m *Machine) disinherit(call *Call, code zk.Code) {
	if call.inherits && code != zk.OK && m.phase == attached {
		m.disarm(call.Watch.Path, call.Watch.Kind)
	}
}

// removerOf is the type of watcher to remove. Servers before 3.9 do not know
// the types of persistent watches; a watch alone at its path is removed as any. There
// one that is not alone stays, and tells of changes that nobody asks for: any would
// take what others wait for.
func removerOf(kind WatchKind, alone bool) zk.WatcherType {
	switch {
	case alone:
		return zk.WatcherAny
	case kind == RecursiveWatch:
		return zk.WatcherPersistentRecursive
	}
	return zk.WatcherPersistent
}
