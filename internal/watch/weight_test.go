package watch

import (
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/conclave-project/conclave/zk"
)

// What the watches of a connection weigh comes and goes with them, and is about what they
// take.
func TestWatchesAreWeighed(t *testing.T) {
	w := New()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range uint32(100_000) {
		w.AddMode(1, zk.WatchPersistent, string(binary.BigEndian.AppendUint32(nil, i)))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	taken := int64(after.HeapAlloc - before.HeapAlloc)
	if said := w.Bytes(); said < taken/2 || said > 3*taken {
		t.Errorf("%d bytes are said to be %d", taken, said)
	}
	w.Add(2, Data, "/a")
	w.Add(2, Data, "/a")
	w.AddMode(2, zk.WatchPersistentRecursive, "/a")
	if conn, ok := w.Heaviest(); !ok || conn != 1 {
		t.Errorf("the heaviest is %d, %v", conn, ok)
	}
	w.Forget(1)
	if conn, ok := w.Heaviest(); !ok || conn != 2 || w.Bytes() != weight+2 {
		t.Errorf("the heaviest is %d, %v, with %d bytes", conn, ok, w.Bytes())
	}
	w.Add(3, Child, "/b")
	w.Fire(zk.EventNodeChildrenChanged, "/b", nil)
	w.Remove(2, zk.WatcherAny, "/a")
	if _, ok := w.Heaviest(); ok || w.Bytes() != 0 {
		t.Errorf("%d bytes are left of nothing", w.Bytes())
	}
}
