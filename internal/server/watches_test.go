package server

import (
	"fmt"
	"testing"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// The client that watches most goes when all together have too many watches; the others
// stay, and so does its session.
func TestClientsWithTooManyWatchesAreDisconnected(t *testing.T) {
	s := start(t, vfs.NewMem(), func(c *Config) { c.WatchBytesMax = 400_000 })
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
	awaittest.Until(t, "its watches are gone", func() bool { return s.reader.Watches.Bytes() < 100_000 })
	if code, _ := few.do(watch(few, "more")); code != zk.ErrNoNode {
		t.Errorf("the other client: %v", code)
	}
	again := dial(t, s, many)
	if code, _ := again.do(zk.Request{Op: zk.OpExists, Path: "/"}); code != zk.OK {
		t.Errorf("its session: %v", code)
	}
}
