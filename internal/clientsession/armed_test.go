package clientsession

import (
	"errors"
	"fmt"
	"testing"

	"github.com/conclave-project/conclave/zk"
)

// armedKinds are the watches that a server has for one connection at one path. To a server, an
// exist watch is a data watch.
type armedKinds [watchKinds]bool

func onServer(kind WatchKind) WatchKind {
	if kind == ExistWatch {
		return DataWatch
	}
	return kind
}

// armed is a machine beside a server that keeps watches as servers since 3.9 do. What the server
// does and when the client learns of it are two steps.
type armed struct {
	t        *testing.T
	m        *Machine
	random   random
	now      int64
	requests []*zk.Request // sent, but not yet taken by the server
	replies  []*Event      // sent by the server, but not yet taken by the client
	server   map[string]*armedKinds
	calls    []*Call
	live     map[*Watch]bool // according to what the program was told
	order    []*Watch        // the same, in order
	history  []string
}

// TestRegisteredWatchIsArmedAtTheServer (clientsession-C5): whatever the program gives up and
// removes, and in whatever order, once everything is answered the server has the watches that the
// program counts on, and no persistent watch that the program does not have.
func TestRegisteredWatchIsArmedAtTheServer(t *testing.T) {
	for seed := range uint64(150) {
		a := &armed{t: t, random: random(seed), server: map[string]*armedKinds{}, live: map[*Watch]bool{}}
		a.m = New(Config{TimeoutMs: 1 << 30, Seed: seed, RearmBytesMax: 16}, 0)
		for range 40 {
			for range 12 {
				a.happen()
			}
			for a.m.phase != attached || len(a.requests)+len(a.replies) > 0 {
				a.goOn()
			}
			if a.check(); t.Failed() {
				for _, line := range a.history[max(0, len(a.history)-60):] {
					t.Log(line)
				}
				t.Fatalf("seed %d", seed)
			}
		}
	}
}

func (a *armed) at(path string) *armedKinds {
	if a.server[path] == nil {
		a.server[path] = &armedKinds{}
	}
	return a.server[path]
}

func (a *armed) check() {
	registered := map[*Watch]bool{}
	wanted := map[string]*armedKinds{}
	a.m.registry.each(func(w *Watch) {
		registered[w] = true
		if wanted[w.Path] == nil {
			wanted[w.Path] = &armedKinds{}
		}
		wanted[w.Path][onServer(w.Kind)] = true
		if !a.at(w.Path)[onServer(w.Kind)] {
			a.t.Errorf("a %v watch of %s is registered, and the server has none", w.Kind, w.Path)
		}
		if !a.live[w] {
			a.t.Errorf("a %v watch of %s is registered, and nobody has it", w.Kind, w.Path)
		}
	})
	for _, w := range a.order {
		if a.live[w] && !registered[w] {
			a.t.Errorf("the program counts on a %v watch of %s, which is not registered", w.Kind, w.Path)
		}
	}
	for path, kinds := range a.server {
		for _, kind := range []WatchKind{PersistentWatch, RecursiveWatch} {
			if kinds[kind] && (wanted[path] == nil || !wanted[path][kind]) {
				a.t.Errorf("the server has a %v watch of %s for nobody", kind, path)
			}
		}
	}
}

func (a *armed) step(e *Event) {
	if e.Conn == 0 {
		e.Conn = a.m.conn
	}
	for _, effect := range a.m.Step(a.now, e) {
		a.history = append(a.history, describeEffect(&effect))
		switch effect.Kind {
		case Send:
			copied := *effect.Request
			a.requests = append(a.requests, &copied)
		case Drop, Greet:
			a.requests, a.replies, a.server = nil, nil, map[string]*armedKinds{}
		case Complete:
			if w := effect.Call.Watch; w != nil && effect.Replied && (effect.Code == zk.OK || w.Kind == ExistWatch) {
				a.live[w] = true
				a.order = append(a.order, w)
			}
		case Notify:
			if effect.Watch.Kind.OneShot() {
				delete(a.live, effect.Watch)
			}
		case EndWatch:
			delete(a.live, effect.Watch)
		}
	}
}

// goOn carries out the next step that is pending.
func (a *armed) goOn() {
	switch a.m.phase {
	case pausing:
		a.now = max(a.now, a.m.WakeMs())
		a.step(&Event{Kind: Tick})
	case resolving:
		a.step(&Event{Kind: Resolved, Found: true, Addresses: []string{"a:1"}})
	case dialling:
		a.step(&Event{Kind: Dialed})
	case greeting:
		a.step(&Event{Kind: Greeted, Greeting: Greeting{TimeoutMs: 1 << 30, Session: 7}})
	default:
		if len(a.replies) > 0 && (len(a.requests) == 0 || a.random.below(2) == 0) {
			e := a.replies[0]
			a.replies = a.replies[1:]
			a.step(e)
		} else if len(a.requests) > 0 {
			r := a.requests[0]
			a.requests = a.requests[1:]
			a.serve(r)
		}
	}
}

// happen makes one of the possible things happen.
func (a *armed) happen() {
	switch n := a.random.below(40); {
	case n < 14:
		a.submit()
	case n < 18 && len(a.calls) > 0:
		last := a.calls[max(0, len(a.calls)-6):]
		call := last[a.random.below(int64(len(last)))]
		a.history = append(a.history, fmt.Sprintf("cancel %v", call.Owner))
		a.step(&Event{Kind: Cancel, Call: call})
	case n < 22:
		a.unwatch()
	case n < 24:
		a.change()
	case n == 24:
		a.step(&Event{Kind: Lost, Cause: errors.New("cut")})
	default:
		a.goOn()
	}
}

func (a *armed) unwatch() {
	var all []*Watch
	a.m.registry.each(func(w *Watch) { all = append(all, w) })
	if len(all) > 0 {
		w := all[a.random.below(int64(len(all)))]
		a.history = append(a.history, fmt.Sprintf("unwatch %v", w.Owner))
		delete(a.live, w)
		a.step(&Event{Kind: Unwatch, Watch: w})
	}
}

func (a *armed) submit() {
	name, path := fmt.Sprint("c", len(a.calls)), fmt.Sprintf("/%d", a.random.below(2))
	call := &Call{Owner: name, Request: zk.Request{Path: path}}
	switch a.random.below(6) {
	case 0:
		call.Request.Op, call.Watch = zk.OpGetData, &Watch{Kind: DataWatch}
	case 1:
		call.Request.Op, call.Watch = zk.OpExists, &Watch{Kind: DataWatch}
	case 2:
		call.Request.Op, call.Watch = zk.OpGetChildren2, &Watch{Kind: ChildWatch}
	case 3:
		call.Request.Op, call.Request.Watches, call.Watch = zk.OpAddWatch, zk.WatchPersistent, &Watch{Kind: PersistentWatch}
	case 4:
		call.Request.Op, call.Request.Watches, call.Watch = zk.OpAddWatch, zk.WatchPersistentRecursive, &Watch{Kind: RecursiveWatch}
	case 5:
		call.Request.Op, call.Request.Watcher = zk.OpRemoveWatches, zk.WatcherType(1+a.random.below(5))
	}
	if w := call.Watch; w != nil {
		w.Path, w.Owner = path, name
		call.Request.Watch = w.Kind.OneShot()
	}
	a.history = append(a.history, fmt.Sprintf("submit %s %v %s", name, call.Request.Op, path))
	a.calls = append(a.calls, call)
	a.step(&Event{Kind: Submit, Call: call})
}

// serve handles a request on the server's side.
func (a *armed) serve(r *zk.Request) {
	reply := &Event{Kind: Replied, Xid: r.Xid}
	kinds := a.at(r.Path)
	fails := a.random.below(5) == 0
	switch r.Op {
	case zk.OpGetData, zk.OpGetChildren2, zk.OpAddWatch:
		if fails {
			reply.Code = zk.ErrThrottledOp
			break
		}
		kind := map[zk.Op]WatchKind{zk.OpGetData: DataWatch, zk.OpGetChildren2: ChildWatch, zk.OpAddWatch: PersistentWatch}[r.Op]
		if r.Op == zk.OpAddWatch && r.Watches == zk.WatchPersistentRecursive {
			kind = RecursiveWatch
		}
		kinds[kind] = true
	case zk.OpExists:
		kinds[DataWatch] = true
		if fails {
			reply.Code = zk.ErrNoNode
		}
	case zk.OpRemoveWatches:
		found := false
		for _, kind := range removedKinds(r.Watcher) {
			found = found || kinds[onServer(kind)]
			kinds[onServer(kind)] = false
		}
		if !found {
			reply.Code = zk.ErrNoWatcher
		}
	case zk.OpSetWatches, zk.OpSetWatches2:
		for kind, paths := range [][]string{r.SetWatches.Data, r.SetWatches.Exist, r.SetWatches.Child, r.SetWatches.Persistent, r.SetWatches.Recursive} {
			for _, path := range paths {
				a.at(path)[onServer(WatchKind(kind))] = true
			}
		}
	}
	a.history = append(a.history, fmt.Sprintf("the server takes %s: %v", describeRequest(r), reply.Code))
	a.replies = append(a.replies, reply)
}

// change changes a znode.
func (a *armed) change() {
	path := fmt.Sprintf("/%d", a.random.below(2))
	kinds := a.at(path)
	event := zk.Event{Type: zk.EventNodeDeleted, Path: path}
	told := kinds[PersistentWatch] || kinds[DataWatch] || kinds[ChildWatch]
	switch a.random.below(3) {
	case 0:
		event.Type = zk.EventNodeDataChanged
		told = kinds[PersistentWatch] || kinds[DataWatch] || kinds[RecursiveWatch]
		kinds[DataWatch] = false
	case 1:
		event.Type = zk.EventNodeChildrenChanged
		told = kinds[PersistentWatch] || kinds[ChildWatch]
		kinds[ChildWatch] = false
	default:
		told = told || kinds[RecursiveWatch]
		kinds[DataWatch], kinds[ChildWatch] = false, false
	}
	if told {
		a.history = append(a.history, fmt.Sprintf("the server tells of %v %s", event.Type, path))
		a.replies = append(a.replies, &Event{Kind: Notified, Watched: event})
	}
}
