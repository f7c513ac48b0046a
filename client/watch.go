package client

import (
	"context"
	"fmt"

	"github.com/conclave-project/conclave/internal/clientsession"
	"github.com/conclave-project/conclave/zk"
)

// Watch is a request to be told about a path.
//
// A one-shot watch (GetW, ExistsW, ChildrenW) delivers one event, and then
// its channel is closed. A persistent watch delivers events until it is closed,
// removed, or the session ends.
//
// An event of type zk.EventNone on a persistent watch means that events may be missing at this
// point: the client was attached to a server again, or the reader was too far behind. Read what
// you watch again; every change after that is delivered.
type Watch struct {
	c      *Client
	path   string // as the program gave it
	inner  clientsession.Watch
	events chan zk.Event // capacity limit + 1: one place for the mark of a gap
	limit  int
	ended  bool  // guarded by Client.mu
	err    error // guarded by Client.mu
}

func (c *Client) newWatch(path string, kind clientsession.WatchKind) *Watch {
	w := &Watch{c: c, path: path, inner: clientsession.Watch{Path: c.absolute(path), Kind: kind}}
	w.inner.Owner = w
	if kind.OneShot() {
		w.events = make(chan zk.Event, 1)
	} else {
		w.limit = c.options.WatchQueue
		w.events = make(chan zk.Event, w.limit+1)
	}
	return w
}

// Path returns the path watched.
func (w *Watch) Path() string { return w.path }

// Events returns the events. It is closed when the watch has ended.
func (w *Watch) Events() <-chan zk.Event { return w.events }

// Err returns why the watch has ended: nil if it runs or a one-shot watch has fired,
// ErrWatchClosed, zk.ErrNoWatcher if it was removed by RemoveWatches, or the session's error.
func (w *Watch) Err() error {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	return w.err
}

// Close ends the watch. Events that were not read yet stay in the channel.
func (w *Watch) Close() {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	if !w.ended {
		w.c.step(clientsession.Event{Kind: clientsession.Unwatch, Watch: &w.inner})
		w.end(ErrWatchClosed)
	}
}

// notify delivers an event. The caller holds Client.mu, so there is one sender, and the
// channel can only become emptier in the meantime.
//
// The last place in the channel of a persistent watch is for the mark of a gap. If all
// other places are taken, the mark is put there. While it is there, it also stands for all
// further events, because the reader will read the mark after they have happened.
func (w *Watch) notify(event zk.Event) {
	if w.ended {
		return
	}
	event.Path = w.c.relative(event.Path)
	waiting := len(w.events) // read once, because the reader may take some meanwhile
	switch {
	case w.inner.Kind.OneShot():
		w.events <- event
		if event.Type == zk.EventDataWatchRemoved || event.Type == zk.EventChildWatchRemoved {
			w.end(zk.ErrNoWatcher)
		} else {
			w.end(nil)
		}
	case waiting < w.limit:
		w.events <- event
	case waiting == w.limit:
		w.events <- zk.Event{Type: zk.EventNone, State: zk.StateSyncConnected, Path: w.path, Zxid: zk.NoZxid}
	}
}

// end closes the channel. The caller holds Client.mu.
func (w *Watch) end(err error) {
	if w.ended {
		return
	}
	w.ended, w.err = true, err
	close(w.events)
}

// Watch sets a persistent watch: on path alone (zk.WatchPersistent: its data and its children),
// or on path and everything below it (zk.WatchPersistentRecursive: data only, the children have
// events of their own). The znode need not exist. Servers support it since 3.6. Those before 3.9
// keep one mode for each connection and path, so a further watch of another kind on the same path
// replaces this one on the server (ZOOKEEPER-4466).
func (c *Client) Watch(ctx context.Context, path string, mode zk.WatchMode) (*Watch, error) {
	kind := clientsession.PersistentWatch
	switch mode {
	case zk.WatchPersistent:
	case zk.WatchPersistentRecursive:
		kind = clientsession.RecursiveWatch
	default:
		return nil, refusal(zk.OpAddWatch, path, fmt.Errorf("watch mode %d is not a persistent one", mode))
	}
	if err := zk.ValidatePath(path); err != nil {
		return nil, refusal(zk.OpAddWatch, path, err)
	}
	w := c.newWatch(path, kind)
	r := zk.Request{Op: zk.OpAddWatch, Path: c.absolute(path), Watches: mode}
	if _, err := c.do(ctx, &r, &w.inner, path); err != nil {
		return nil, err
	}
	return w, nil
}

// RemoveWatches ends all of this client's watches of a type at path. If there are none, it fails
// with zk.ErrNoWatcher. Servers support the types of persistent watches since 3.9. To end one
// watch, close it.
func (c *Client) RemoveWatches(ctx context.Context, path string, t zk.WatcherType) error {
	r := zk.Request{Op: zk.OpRemoveWatches, Path: c.absolute(path), Watcher: t}
	if !t.Valid() {
		return refusal(r.Op, path, fmt.Errorf("watcher type %d is not 1 to 5", t))
	}
	if err := zk.ValidatePath(path); err != nil {
		return refusal(r.Op, path, err)
	}
	_, err := c.do(ctx, &r, nil, path)
	return err
}

// HasWatches reports whether the server holds a watch of this client of a type at
// path.
func (c *Client) HasWatches(ctx context.Context, path string, t zk.WatcherType) (bool, error) {
	r := zk.Request{Op: zk.OpCheckWatches, Path: c.absolute(path), Watcher: t}
	if err := zk.ValidatePath(path); err != nil {
		return false, refusal(r.Op, path, err)
	}
	_, err := c.do(ctx, &r, nil, path)
	if isCode(err, zk.ErrNoWatcher) {
		return false, nil
	}
	return err == nil, err
}
