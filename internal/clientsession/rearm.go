package clientsession

import (
	"fmt"

	"github.com/conclave-project/conclave/zk"
)

// rearm sends the watches to the server of a new connection, in requests of limited size.
// It uses setWatches as long as that is enough: setWatches2 came with 3.6, and older
// servers close the connection on it.
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

// repliedRearm waits for the last answer. Then it tells every persistent watch that events
// may be missing, unless an event has already done so (notify), because setWatches replays
// events only for the other kinds. What is read after that is complete, because the watch
// is armed.
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

// missed returns the event that marks a gap for a persistent watch.
func missed(path string) zk.Event {
	return zk.Event{Type: zk.EventNone, State: zk.StateSyncConnected, Path: path, Zxid: zk.NoZxid}
}

// forget drops a watch without a message to the server, which at most would fire it for nobody.
func (m *Machine) forget(e *Event) { m.registry.remove(e.Watch) }

// unwatch drops a watch. A one-shot watch may stay on the server, where it fires at most
// once. A persistent watch is removed there if it was the last of its kind at its path.
func (m *Machine) unwatch(e *Event) {
	w := e.Watch
	if m.registry.remove(w) && !w.Kind.OneShot() && m.phase == attached {
		m.disarm(w.Path, w.Kind)
	}
}

// disarm removes a kind of persistent watch at a path from the server, unless there is
// another watch of that kind, or a request for one in progress, which would be removed too.
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

// disinherit removes from the server the watch that a failed call would have taken over.
func (m *Machine) disinherit(call *Call, code zk.Code) {
	if call.inherits && code != zk.OK && m.phase == attached {
		m.disarm(call.Watch.Path, call.Watch.Kind)
	}
}

// removerOf returns the type of watcher to remove. Servers before 3.9 do not know the types
// of persistent watches, so a watch that is alone at its path is removed with the type
// "any". One that is not alone stays on such a server and sends events that nobody asks
// for, because "any" would remove the other watches too.
func removerOf(kind WatchKind, alone bool) zk.WatcherType {
	switch {
	case alone:
		return zk.WatcherAny
	case kind == RecursiveWatch:
		return zk.WatcherPersistentRecursive
	}
	return zk.WatcherPersistent
}
