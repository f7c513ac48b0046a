package watch

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/zk"
)

// sums are the watches in total and of each owner, counted from the connections.
func (t *Table) sums() (all int, owners map[zk.Identity]owner) {
	owners = map[zk.Identity]owner{}
	for _, w := range t.mu.byConn {
		all += w.count()
		for _, o := range w.owners {
			sum := owners[o.id]
			owners[o.id] = owner{sum.conns + 1, sum.watches + w.count()}
		}
	}
	return all, owners
}

// TestNoWatchIsAddedBeyondALimit makes random changes, and counts after each.
func TestNoWatchIsAddedBeyondALimit(t *testing.T) {
	const conns, paths = 6, 8
	identities := []zk.Identity{{Scheme: "sasl", ID: "bob"}, {Scheme: "x509", ID: "CN=ann"}, {Scheme: "digest", ID: "cat:x"}}
	table := New()
	table.portion = 1
	told, refused, met := 0, 0, map[string]int{}
	limits := Limits{Session: 6, Identity: 12, All: 20, Refused: func(session.ConnID) { told++ }}
	table.Limit(limits)
	random := rand.New(rand.NewPCG(27, 1))
	for step := range 50_000 {
		conn := session.ConnID(random.IntN(conns) + 1)
		path := "/" + strconv.Itoa(random.IntN(paths))
		all, owners := table.sums()
		have := table.waitsOf(conn).count()
		lacks := 0 // how many watches are new
		wants := func(r ...Registry) {
			for _, r := range r {
				if table.at(conn, r, path) == nil {
					lacks++
				}
			}
		}
		adds, set := true, false
		switch random.IntN(8) {
		case 0:
			wants(Data)
			set = table.Add(conn, Data, path)
		case 1:
			wants(Child)
			set = table.Add(conn, Child, path)
		case 2:
			wants(Data)
			set = table.AddMode(conn, zk.WatchPersistentRecursive, path)
		case 3:
			wants(Data, Child)
			set = table.AddMode(conn, zk.WatchPersistent, path)
		case 4:
			adds = false
			table.Fire(zk.EventNodeDeleted, path, nil)
		case 5:
			adds = false
			table.Remove(conn, zk.WatcherAny, path)
		case 6:
			adds = false
			if table.Own(conn, identities[random.IntN(len(identities)):]); random.IntN(4) == 0 {
				table.Forget(conn)
			}
		case 7:
			adds = false
			table.Sweep()
		}
		if adds {
			over := ""
			switch {
			case have+lacks > limits.Session:
				over = "session"
			case all+lacks > limits.All:
				over = "all"
			}
			for _, o := range table.mu.byConn[conn].owners {
				if owners[o.id].watches+lacks > limits.Identity && over == "" {
					over = "identity"
				}
			}
			if lacks == 0 {
				over = ""
			}
			met[over]++
			if now := table.mu.byConn[conn].count(); set != (over == "") || set && now != have+lacks || !set && now != have {
				t.Fatalf("step %d: set %t, over %q; %d, then %d more, are %d", step, set, over, have, lacks, now)
			}
			if !set {
				refused++
			}
		}
		sum, each := table.sums()
		if counts := table.Counts(); counts.All != sum || len(each) != len(table.mu.owners) {
			t.Fatalf("step %d: %d watches, counted %d; %d owners, counted %d", step, sum, counts.All, len(each), len(table.mu.owners))
		}
		for id, want := range each {
			if got := *table.mu.owners[id]; got != want {
				t.Fatalf("step %d: %v has %+v, counted as %+v", step, id, want, got)
			}
		}
	}
	if refused != told || min(met["session"], met["identity"], met["all"], met[""]) < 100 {
		t.Errorf("%d refused, told of %d; %v", refused, told, met)
	}
}

func TestWithoutALimitNothingIsRefused(t *testing.T) {
	table := New()
	table.Own(1, []zk.Identity{{Scheme: "sasl", ID: "bob"}})
	for i := range 1000 {
		if !table.Add(1, Data, "/"+strconv.Itoa(i)) {
			t.Fatal(i)
		}
	}
}
