package cache

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/conclave-project/conclave/zk"
)

// TestSlowReaderCostsNoMoreThanTheZnodes (cache-C4): items come and go, one at a time, with
// new names or the same one, while the reader does not ask. Nothing is reported twice, and
// in the end the reader knows exactly what exists.
func TestSlowReaderCostsNoMoreThanTheZnodes(t *testing.T) {
	k := &Cache{path: "/queue", znodes: make(map[string]*entry), kids: make(map[string]map[string]bool), readers: make(map[*Changes]bool)}
	zxid := zk.Zxid(0)
	set := func(path string) {
		zxid++
		k.set(task{path: path}, Znode{Path: path, Stat: zk.Stat{Czxid: zxid, Mzxid: zxid}})
	}
	set("/queue")
	changes := k.Changes()
	known, random := map[string]bool{}, rand.New(rand.NewPCG(1, 2))
	ask := func() {
		if one, ok := changes.pop(); ok && one.Exists {
			known[one.Path] = true
		} else if ok && !known[one.Path] {
			t.Fatalf("%s is gone, and was never there", one.Path)
		} else if ok {
			delete(known, one.Path)
		}
	}
	for i := range 20_000 {
		path := fmt.Sprint("/queue/item-", i)
		if i%3 == 0 {
			path = "/queue/same"
		}
		set(path)
		if random.IntN(100) == 0 {
			ask()
		}
		k.remove(path)
		if len(changes.pending) > 10 || len(changes.order) > 3*turnsKept || len(changes.told) > 10 {
			t.Fatalf("after %d items: %d pending, %d in order, %d told", i, len(changes.pending), len(changes.order), len(changes.told))
		}
	}
	for len(changes.pending) > 0 {
		ask()
	}
	if len(known) != 1 || !known["/queue"] {
		t.Errorf("the reader knows %v", known)
	}
}
