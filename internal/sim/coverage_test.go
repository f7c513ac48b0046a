package sim

import (
	"slices"
	"testing"
)

// A reason for a row that does not exist is stale, and a row that was met needs no
// reason.
func TestReasonsForUnmetRowsAreOfRowsThatExist(t *testing.T) {
	named := map[string]bool{}
	for _, name := range rows.names {
		if named[name] {
			t.Errorf("two rows are called %q", name)
		}
		named[name] = true
	}
	for name, reason := range unmet {
		if !named[name] || reason == "" {
			t.Errorf("%q, with the reason %q, is no row", name, reason)
		}
	}
	var met Coverage
	if missing, explained := met.Missing(); len(explained) != len(unmet)+len(seldom) || len(missing)+len(explained) != len(rows.names) {
		t.Errorf("of %d rows %d are missing and %d explained", len(rows.names), len(missing), len(explained))
	}
	for row := range rows.names {
		met.rows[row]++
	}
	if missing, explained := met.Missing(); len(missing) != len(unmet) || len(explained) != 0 {
		t.Errorf("with all rows met %d are told of, and %d reasons are", len(missing), len(unmet))
	}
}

func TestPairsOfRowsAreCountedOnce(t *testing.T) {
	a, b := &Coverage{}, &Coverage{}
	p := &process{w: &world{coverage: a}}
	q := &process{w: &world{coverage: b}}
	for _, row := range []uint8{1, 2, 1, 2, 70} {
		p.met(row)
	}
	q.met(2)
	q.met(70)
	q.met(1)
	if n := a.Pairs(); n != 3 {
		t.Errorf("%d pairs, want 1 2, 2 1 and 2 70", n)
	}
	if fresh := a.Add(b); fresh != 1 || a.Pairs() != 4 || a.rows[70] != 2 {
		t.Errorf("%d new ones make %d, and row 70 was met %d times", fresh, a.Pairs(), a.rows[70])
	}
}

// A guide that runs twice from the same seed makes the same plans.
func TestAGuideRepeatsItself(t *testing.T) {
	var traces [2][]uint64
	for again := range traces {
		g := NewGuide(5)
		for range 3 {
			for _, plan := range g.Next(4) {
				r := Run(plan, nil)
				if r.Err != nil {
					t.Errorf("at %d ms: %v", r.AtMs, r.Err)
				}
				traces[again] = append(traces[again], r.Trace)
				g.Learn(&r)
			}
		}
		if len(g.kept) == 0 || g.Met().Pairs() < 100 {
			t.Errorf("%d plans are kept, for %d pairs", len(g.kept), g.Met().Pairs())
		}
	}
	if !slices.Equal(traces[0], traces[1]) {
		t.Errorf("%x, then %x", traces[0], traces[1])
	}
}

// A guide turns a plan into one that can be run: its faults fit its time, its servers
// and its clients.
func TestAChangedPlanIsSound(t *testing.T) {
	g := NewGuide(1)
	for seed := uint64(1); seed <= 30; seed++ {
		g.kept = append(g.kept, Draw(seed))
	}
	for n := range 2000 {
		p := g.change(g.kept[n%len(g.kept)])
		for i, f := range p.Faults {
			if f.AtMs < 1 || f.AtMs >= p.WildMs || f.A < 0 || f.A > max(p.Clients, p.servers()) || f.B > p.servers() ||
				i > 0 && f.AtMs < p.Faults[i-1].AtMs || len(p.Faults) > faultsMax {
				t.Fatalf("fault %d of %d: %v", i, len(p.Faults), f)
			}
		}
		g.kept[n%len(g.kept)] = p
	}
}
