package watch

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"

	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/zk"
)

// The weight of a connection's watches comes and goes with them, and is about the memory that
// they take.
func TestWatchesAreWeighed(t *testing.T) {
	own := func(id session.ConnID) session.ConnID { return id }
	var w *Table
	for _, mode := range []zk.WatchMode{zk.WatchPersistentRecursive, zk.WatchPersistent} {
		w = New()
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range uint32(100_000) {
			w.AddMode(1, mode, string(binary.BigEndian.AppendUint32(nil, i)))
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		taken := int64(after.HeapAlloc - before.HeapAlloc)
		if said := w.Bytes(); said < taken/2 || said > 3*taken {
			t.Errorf("mode %d: %d bytes are said to be %d", mode, taken, said)
		}
	}
	w.Add(2, Data, "/a")
	w.Add(2, Data, "/a")
	w.AddMode(2, zk.WatchPersistentRecursive, "/a")
	if conn, ok := Heaviest(w, own); !ok || conn != 1 {
		t.Errorf("the heaviest is %d, %v", conn, ok)
	}
	w.Forget(1)
	if conn, ok := Heaviest(w, own); !ok || conn != 2 || w.Bytes() != weight+weightBelow+2*2 {
		t.Errorf("the heaviest is %d, %v, with %d bytes", conn, ok, w.Bytes())
	}
	w.Add(3, Child, "/b")
	w.Fire(zk.EventNodeChildrenChanged, "/b", nil)
	w.Remove(2, zk.WatcherAny, "/a")
	if _, ok := Heaviest(w, own); ok || w.Bytes() != 0 {
		t.Errorf("%d bytes are left of nothing", w.Bytes())
	}
}

// A host whose connections have many watches together is heavier than a single connection of
// another host.
func TestHeaviestIsOfTheHeaviestHost(t *testing.T) {
	w := New()
	host := func(id session.ConnID) string {
		if id == 4 {
			return "10.0.0.1"
		}
		return "10.9.9.9"
	}
	for id, n := range map[session.ConnID]int{1: 10, 2: 12, 3: 11, 4: 20} {
		for i := range n {
			w.Add(id, Data, fmt.Sprintf("/%d", i))
		}
	}
	for _, want := range []session.ConnID{2, 3, 4, 1} { // the host with 33, then 21, and the other with 20
		conn, found := Heaviest(w, host)
		if !found || conn != want {
			t.Errorf("the heaviest is %d, not %d", conn, want)
		}
		w.Forget(want)
	}
}
