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
		if got := gcPercent(c.live, c.scanned); got != c.want {
			t.Errorf("%s: %d", c.what, got)
		}
	}
	if live, scanned := heapBytes(); scanned == 0 || live > 1<<40 {
		t.Errorf("%d live, %d scanned", live, scanned)
	}
}
