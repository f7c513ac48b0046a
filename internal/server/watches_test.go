package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// When all together have too many watches, the client that has most is disconnected. The others
// stay, and so does its session.
func TestClientsWithTooManyWatchesAreDisconnected(t *testing.T) {
	s := start(t, vfs.NewMem(), func(c *Config) { c.WatchBytesMax = 100_000 })
	few, many := dial(t, s, nil), dial(t, s, nil)
	watch := func(p *peer, name string) zk.Request {
		return zk.Request{Op: zk.OpExists, Path: "/" + name, Watch: true}
	}
	for i := range 100 {
		if code, _ := few.do(watch(few, fmt.Sprint("few", i))); code != zk.ErrNoNode {
			t.Fatal(code)
		}
	}
	sets := &zk.SetWatches{}
	for i := range 5000 {
		sets.Exist = append(sets.Exist, fmt.Sprint("/many", i))
	}
	many.send(zk.Request{Op: zk.OpSetWatches, Xid: zk.XidSetWatches, SetWatches: sets})
	gone(t, many)
	awaittest.Until(t, "its watches are gone", func() bool { return s.reader.Watches.Bytes() < 20_000 })
	if code, _ := few.do(watch(few, "more")); code != zk.ErrNoNode {
		t.Errorf("the other client: %v", code)
	}
	again := dial(t, s, many)
	if code, _ := again.do(zk.Request{Op: zk.OpExists, Path: "/"}); code != zk.OK {
		t.Errorf("its session: %v", code)
	}
}

// The end of a session tells each watcher everything that it watches, each event once, in
// order, and before a reply that shows it, even if there are more bytes than are gathered at a
// time.
func TestWatchersAreToldAllOfALongTransactionInOrder(t *testing.T) {
	s := start(t, vfs.NewMem(), nil)
	owner, deep, children, both := dial(t, s, nil), dial(t, s, nil), dial(t, s, nil), dial(t, s, nil)
	owner.do(create("/w", "", zk.Persistent))
	add := func(p *peer, mode zk.WatchMode) {
		if code, _ := p.do(zk.Request{Op: zk.OpAddWatch, Path: "/w", Watches: mode}); code != zk.OK {
			t.Fatal(code)
		}
	}
	const ephemerals = 100
	name := strings.Repeat("n", 2*eventsMax/ephemerals)
	var paths []string
	for i := range ephemerals {
		paths = append(paths, fmt.Sprintf("/w/%s%03d", name, i))
		if code, _ := owner.do(create(paths[i], "", zk.Ephemeral)); code != zk.OK {
			t.Fatal(code)
		}
	}
	add(deep, zk.WatchPersistentRecursive)
	add(both, zk.WatchPersistentRecursive)
	add(both, zk.WatchPersistent)
	add(children, zk.WatchPersistent)
	zxid := func() zk.Zxid {
		owner.send(zk.Request{Op: zk.OpCloseSession})
		h, _ := owner.reply(zk.OpCloseSession)
		return h.Zxid
	}()
	for _, p := range []*peer{deep, children, both} {
		if code, r := p.do(zk.Request{Op: zk.OpGetChildren, Path: "/w"}); code != zk.OK || len(r.Children) != 0 {
			t.Fatalf("%v, %d children", code, len(r.Children))
		}
	}
	var deleted, changed, all []zk.Event
	for _, e := range both.events {
		if e.Zxid != zxid {
			t.Fatalf("%v %.10s of %#x: the session ended at %#x", e.Type, e.Path, e.Zxid, zxid)
		}
		if all = append(all, e); e.Type == zk.EventNodeDeleted {
			deleted = append(deleted, e)
		} else {
			changed = append(changed, e)
		}
	}
	if len(all) != 2*ephemerals || !slices.Equal(deep.events, deleted) || !slices.Equal(children.events, changed) {
		t.Fatalf("%d, %d and %d events", len(all), len(deep.events), len(children.events))
	}
	slices.SortFunc(deleted, func(a, b zk.Event) int { return strings.Compare(a.Path, b.Path) })
	for i, e := range deleted {
		if e.Path != paths[i] || changed[i].Path != "/w" || changed[i].Type != zk.EventNodeChildrenChanged || all[2*i].Type != zk.EventNodeDeleted {
			t.Fatalf("event %d: %v", i, e.Type)
		}
	}
}
