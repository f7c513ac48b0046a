package watch

import (
	"slices"
	"testing"

	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/zk"
)

// Clients choose how deep a path is, and how many connections watch its prefixes: a change
// looks at 64 connections at a time, at each prefix.
func TestBeginningsOfADeepPathAreLookedAtManyConnectionsAtATime(t *testing.T) {
	const conns, levels = 200, 300
	table := New()
	path := deepest(table, conns, levels)
	all := table.mu.above.Above(path, nil)
	if len(all) != levels {
		t.Fatalf("%d levels", len(all))
	}
	for _, id := range all {
		s := table.mu.spots.At(id)
		if below := table.mu.crowds[s.crowd].below; below.list != nil || len(below.set) != conns/64+1 || below.len() != conns {
			t.Fatalf("%s: a list of %d, %d times 64 for %d connections", table.mu.pathOf(s), len(below.list), len(below.set), below.len())
		}
	}
	to := table.Fire(zk.EventNodeDataChanged, path, []session.ConnID{7000})
	if slices.Sort(to); len(slices.Compact(to)) != conns+1 {
		t.Errorf("%d are told", len(to)-1)
	}
	if got := testing.AllocsPerRun(10, func() { to = table.Fire(zk.EventNodeDataChanged, path, to[:0]) }); got != 0 {
		t.Errorf("%v allocations", got)
	}
}

// A few of many connections are kept in a list: a set of bits would be longer.
func TestFewConnectionsOfManyAreAList(t *testing.T) {
	const conns = 64 * 20
	table := New()
	for c := range conns {
		table.AddMode(session.ConnID(c+1), zk.WatchPersistentRecursive, "/all")
	}
	for c := conns - 15; c < conns; c++ {
		table.AddMode(session.ConnID(c+1), zk.WatchPersistentRecursive, "/few")
	}
	few := table.mu.crowds[table.mu.spots.At(table.spot(Data, "/few")).crowd].below
	if few.set != nil || len(few.list) != 15 {
		t.Errorf("a list of %d, a set of %d", len(few.list), len(few.set))
	}
	if to := table.Fire(zk.EventNodeDeleted, "/few/a", nil); len(to) != 15 || to[0] <= conns-15 {
		t.Errorf("told: %v", to)
	}
	// Numbers of connections that are gone are reused, and nobody is told what another watched.
	for c := range conns {
		table.Forget(session.ConnID(c + 1))
	}
	for table.Sweep() {
	}
	table.AddMode(5000, zk.WatchPersistentRecursive, "/few")
	for c := range conns {
		table.AddMode(session.ConnID(6000+c), zk.WatchPersistentRecursive, "/other")
	}
	if to := table.Fire(zk.EventNodeCreated, "/few/a", nil); !slices.Equal(to, []session.ConnID{5000}) {
		t.Errorf("told: %v", to)
	}
	if n := len(table.mu.numbers.waits) - 1; n != conns+1 {
		t.Errorf("%d numbers for %d connections", n, conns+1)
	}
}
