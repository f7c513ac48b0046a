package server

import (
	"testing"

	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// A client that may not read a znode could ask by setWatches, with one zxid after the other, when it was
// written last. It is told nothing, and its watch is set: what comes of that is for the ACL of then.
func TestSetWatchesTellsNothingOfWhatMayNotBeRead(t *testing.T) {
	s := start(t, vfs.NewMem(), nil)
	owner, other := dial(t, s, nil), dial(t, s, nil)
	prove := zk.Request{Op: zk.OpAuth, Scheme: "digest", Data: []byte("owner:secret")}
	owner.must(zk.OK, prove)
	own := create("/own", "", zk.Persistent)
	own.ACL = []zk.ACL{{Perms: zk.PermAll, Identity: zk.Identity{Scheme: "auth"}}}
	owner.must(zk.OK, own)
	owner.must(zk.OK, zk.Request{Op: zk.OpSetData, Path: "/own", Version: -1})
	other.must(zk.ErrNoAuth, zk.Request{Op: zk.OpExists, Path: "/own"})
	again := zk.Request{Op: zk.OpSetWatches, SetWatches: &zk.SetWatches{RelativeZxid: 1, Data: []string{"/own"}, Child: []string{"/own"}}}
	other.must(zk.OK, again)
	if len(other.events) > 0 {
		t.Errorf("a client that may not read it was told %+v", other.events)
	}
	other.must(zk.OK, zk.Request{Op: zk.OpCheckWatches, Path: "/own", Watcher: zk.WatcherData})
	other.must(zk.OK, prove)
	other.must(zk.OK, again)
	if len(other.events) != 2 {
		t.Errorf("a client that may read it was told %+v", other.events)
	}
}
