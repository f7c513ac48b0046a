package server

import "testing"

// What is collected for a portion of garbage costs the same however large the tree is, and
// a share of what was made, however many watches there are.
func TestHeapGrowsByWhatACollectionLooksThrough(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		what          string
		live, scanned uint64
		want          int
	}{
		{"nothing yet", 0, 0, 100},
		{"a small server", 4 * mib, 2 * mib, 400},
		{"a tree of a million znodes", 240 * mib, 10 * mib, 10},
		{"a tree of ten million", 2400 * mib, 10 * mib, 4},
		{"a million watches", 160 * mib, 150 * mib, 46},
		{"ten million", 1600 * mib, 1500 * mib, 46},
		{"both", 1600 * mib, 800 * mib, 25},
	} {
		if got := (heap{live: c.live, scanned: c.scanned}).gcPercent(); got != c.want {
			t.Errorf("%s: %d", c.what, got)
		}
	}
	if h := readHeap(); h.scanned == 0 || h.objects == 0 || h.taken < h.objects || h.live > 1<<40 || h.free > 1<<40 {
		t.Errorf("%+v", h)
	}
}

// Memory is returned once a server is quiet and there is enough of it, and what a collection
// costs is in proportion to that.
func TestAQuietServerReturnsMemory(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		what      string
		now       heap
		takenThen uint64
		want      bool
	}{
		{"after a load", heap{160 * mib, 10 * mib, 180 * mib, 0, 900 * mib}, 900 * mib, true},
		{"free memory alone", heap{160 * mib, 10 * mib, 160 * mib, 4 * mib, 900 * mib}, 900 * mib, true},
		{"both together", heap{160 * mib, 10 * mib, 162 * mib, 2 * mib, 900 * mib}, 900*mib - 1000, true},
		{"under load", heap{160 * mib, 10 * mib, 180 * mib, 0, 900 * mib}, 899 * mib, false},
		{"too little", heap{160 * mib, 10 * mib, 161 * mib, 2 * mib, 900 * mib}, 900 * mib, false},
		{"just collected", heap{160 * mib, 10 * mib, 159 * mib, 0, 900 * mib}, 900 * mib, false},
		{"ten million watches", heap{1600 * mib, 1500 * mib, 1900 * mib, 0, 9000 * mib}, 9000 * mib, false},
		{"ten million watches, and more garbage", heap{1600 * mib, 1500 * mib, 2000 * mib, 0, 9000 * mib}, 9000 * mib, true},
	} {
		if got := c.now.mayRelease(heap{taken: c.takenThen}); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}
