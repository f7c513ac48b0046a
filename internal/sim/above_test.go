package sim

import (
	"slices"
	"testing"
)

// above names what is drawn only by seeds above those that have names. For each, oneIn says that at
// least one run in that many has it.
var above = []struct {
	name  string
	oneIn int
	has   func(*Plan) bool
}{
	{"a leader in the order of Apache's", 4, func(p *Plan) bool { return p.Apache != 0 }},
	{"kills at an operation of the disk", 6, func(p *Plan) bool {
		return slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.Kind == FaultCrashAtOp && f.B == 1 })
	}},
	{"addresses that are exchanged", 7, func(p *Plan) bool {
		return slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.Kind == FaultStray })
	}},
	{"directories that are put back", 8, func(p *Plan) bool {
		return slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.Kind == FaultOldCopy })
	}},
	{"disks that hang", 7, func(p *Plan) bool {
		return slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.Kind == FaultHang })
	}},
	{"links that report what is written", 7, func(p *Plan) bool { return p.Encrypted }},
	{"loops that are behind", 7, func(p *Plan) bool { return p.Behind }},
	{"long steps", 7, func(p *Plan) bool { return p.LongSteps }},
	{"claims that are not true", 8, func(p *Plan) bool { return p.Liars }},
	{"old votes", 7, func(p *Plan) bool { return p.OldVotes }},
	{"late files", 10, func(p *Plan) bool { return p.Unsaved }},
	{"files that are written again at each start", 40, func(p *Plan) bool { return p.Rewritten }},
	{"an oracle", 20, func(p *Plan) bool { return p.Oracle }},
	{"a server alone", 40, func(p *Plan) bool { return p.Solo }},
}

func TestSeedsAboveThoseWithNamesDrawMore(t *testing.T) {
	const count = 2000
	for _, x := range above {
		n := 0
		for seed := range uint64(count) {
			if p := Draw(knownSeeds + 1 + seed); x.has(&p) {
				n++
			}
			if p := Draw(1 + seed%knownSeeds); x.has(&p) {
				t.Fatalf("seed %d has %s: it has a name", p.Seed, x.name)
			}
		}
		if n < count/x.oneIn {
			t.Errorf("of %d runs %d have %s", count, n, x.name)
		}
	}
}

// The first runs that have each of these keep their promises.
func TestWhatIsDrawnAboveKeepsItsPromises(t *testing.T) {
	var plans []Plan
	for _, x := range above {
		for seed, n := uint64(knownSeeds+1), 0; n < max(*seeds/20, 1); seed++ {
			if p := Draw(seed); x.has(&p) {
				plans = append(plans, p)
				n++
			}
		}
	}
	var met Coverage
	behind := 0
	for _, r := range runAll(plans...) {
		behind += r.Tally.Behind
		met.Add(r.Met)
		if r.Err != nil {
			t.Errorf("seed %d at %d ms: %v\nread it: conclave sim --seed %d --shrink", r.Plan.Seed, r.AtMs, r.Err, r.Plan.Seed)
		}
	}
	if behind == 0 {
		t.Error("no step has left something waiting")
	}
	for _, name := range []string{"zab: learner storing COMMIT", "zab: learner ready COMMIT"} {
		if *seeds >= 200 && met.rows[slices.Index(rows.names, name)] == 0 {
			t.Errorf("%q was not met", name)
		}
	}
}
