package server

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// A long list shows one moment, even while children come and go and their data change. Changes
// after it are reported to a client that has asked for that.
func TestLongListsAreOfOneMoment(t *testing.T) {
	const children, lists = answerLong/128 + 7, 40 // so many are read in portions
	s := start(t, vfs.NewMem(), nil)
	writer := dial(t, s, nil)
	writer.must(zk.OK, create("/d", "", 0))
	name := func(n int) string { return fmt.Sprintf("/d/child%06d", n) }
	for from := 0; from < children; from += 500 {
		batch := zk.Request{Op: zk.OpMulti}
		for n := from; n < min(from+500, children); n++ {
			batch.Ops = append(batch.Ops, create(name(n), "", 0))
		}
		writer.must(zk.OK, batch)
	}
	done := make(chan struct{})
	var changes sync.WaitGroup
	changes.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			default:
			}
			writer.must(zk.OK, zk.Request{Op: zk.OpSetData, Path: name(n + children/2), Data: []byte(strings.Repeat("x", n%200)), Version: -1})
			if n%4 == 0 { // one comes and one goes
				writer.must(zk.OK, zk.Request{Op: zk.OpMulti, Ops: []zk.Request{create(name(children+n/4), "", 0), {Op: zk.OpDelete, Path: name(n / 4), Version: -1}}})
			}
		}
	})
	reader := dial(t, s, nil)
	for i := range lists {
		op := []zk.Op{zk.OpGetChildren, zk.OpGetChildren2}[i%2]
		code, r := reader.do(zk.Request{Op: op, Path: "/d", Watch: true})
		slices.Sort(r.Children)
		if code != zk.OK || len(slices.Compact(r.Children)) != children || op == zk.OpGetChildren2 && r.Stat.NumChildren != children {
			t.Fatalf("list %d: %v, %d children of %d, %d by the stat", i, code, len(r.Children), children, r.Stat.NumChildren)
		}
		for _, name := range r.Children {
			if len(name) != len("child000000") {
				t.Fatalf("list %d has %q", i, name)
			}
		}
	}
	close(done)
	changes.Wait()
	writer.must(zk.OK, create("/d/last", "", 0))
	reader.do(zk.Request{Op: zk.OpExists, Path: "/"})
	if len(reader.events) < 1 {
		t.Error("the client was told of no change")
	}
	for _, e := range reader.events {
		if e.Type != zk.EventNodeChildrenChanged || e.Path != "/d" {
			t.Errorf("told of %v at %s", e.Type, e.Path)
		}
	}
}
