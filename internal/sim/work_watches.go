package sim

import (
	"fmt"

	"github.com/conclave-project/conclave/internal/clientsession"
	"github.com/conclave-project/conclave/zk"
)

// Persistent watches on what all clients use: set, removed, and set again on every new
// connection.

// staysMax is how many persistent watches a client has.
const staysMax = 4

func (p *program) watches() {
	r := p.c.random
	if n := len(p.stays); n > 0 && (n >= staysMax || r.oneIn(3)) {
		i := r.below(n)
		watch := p.stays[i]
		p.stays = append(p.stays[:i], p.stays[i+1:]...)
		p.c.watches.Unwanted(watch.Path, modeOf(watch))
		delete(p.staying, stay{watch.Path, modeOf(watch)})
		p.c.step(clientsession.Event{Kind: clientsession.Unwatch, Watch: watch})
		return
	}
	path := []string{fmt.Sprintf("/r%d", r.below(registers)), fmt.Sprintf("/d%d", r.below(directories)), "/q", "/e", "/t", "/s0"}[r.below(6)]
	req := zk.Request{Op: zk.OpAddWatch, Path: path, Watches: zk.WatchPersistent}
	if r.oneIn(2) {
		req.Watches = zk.WatchPersistentRecursive
	}
	key := stay{path, req.Watches}
	if p.staying[key] {
		return
	}
	p.staying[key] = true
	q := p.submit(req)
	q.then = func(e *clientsession.Effect, _ *zk.Result) {
		if e.Replied && e.Code == zk.OK {
			p.stays = append(p.stays, e.Call.Watch)
		} else {
			delete(p.staying, key)
		}
	}
}

// stay is a persistent watch that a client has set or is about to set.
type stay struct {
	path string
	mode zk.WatchMode
}

func modeOf(w *clientsession.Watch) zk.WatchMode {
	if w.Kind == clientsession.RecursiveWatch {
		return zk.WatchPersistentRecursive
	}
	return zk.WatchPersistent
}

// watchOf returns the watch that a request sets; nil for none.
func watchOf(r *zk.Request) *clientsession.Watch {
	w := &clientsession.Watch{Path: r.Path, Kind: clientsession.DataWatch, Owner: new(int)}
	switch {
	case r.Op == zk.OpAddWatch && r.Watches == zk.WatchPersistent:
		w.Kind = clientsession.PersistentWatch
	case r.Op == zk.OpAddWatch:
		w.Kind = clientsession.RecursiveWatch
	case !r.Watch:
		return nil
	case r.Op == zk.OpGetChildren2:
		w.Kind = clientsession.ChildWatch
	}
	return w
}
