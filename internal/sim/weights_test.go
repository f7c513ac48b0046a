package sim

import (
	"testing"

	"github.com/conclave-project/conclave/internal/quorum"
)

// The plans that are drawn must include everything in which weights differ from a
// majority.
func TestGroupsAndALogDirectoryAreDrawn(t *testing.T) {
	const count = 2000
	grouped, split, weightless, fewEnough, manyTooFew := 0, 0, 0, 0, 0
	for seed := range uint64(count) {
		p := Draw(knownSeeds + 1 + seed)
		if p.SplitDirs {
			split++
		}
		if !p.Grouped {
			continue
		}
		grouped++
		c := p.config()
		all := c.Participants()
		for set := range 1 << len(all) {
			var some quorum.IDs
			for at, id := range all {
				if set>>at&1 == 1 {
					some.Add(id)
				}
			}
			switch majority := 2*len(some) > len(all); {
			case majority && !c.Quorum().Enough(some):
				manyTooFew++
			case !majority && c.Quorum().Enough(some):
				fewEnough++
			}
		}
		for _, id := range all {
			if c.Quorum().Weight(id) == 0 {
				weightless++
			}
		}
		if !c.Quorum().Enough(all) {
			t.Errorf("seed %d: all servers together are no quorum:\n%s", p.Seed, c.Text())
		}
	}
	if grouped != count/8 || split < count/12 || split > count/6 {
		t.Errorf("of %d runs %d have groups, and %d a directory for the log", count, grouped, split)
	}
	if weightless == 0 || fewEnough == 0 || manyTooFew == 0 {
		t.Errorf("%d servers without weight, %d minorities that are enough, %d majorities that are not", weightless, fewEnough, manyTooFew)
	}
}

// weighed returns a world whose servers have weights.
func weighed(t *testing.T, lines string) *world {
	t.Helper()
	plan := Draw(5)
	plan.Participants, plan.Observers, plan.Spares, plan.ZeroID, plan.Grouped = 3, 0, 0, false, false
	w := newWorld(plan, nil)
	for _, p := range w.servers {
		p.saved = parse(plan.config().Text() + lines)
		p.inForce, p.proposed, p.pending = p.saved, nil, nil
	}
	return w
}

// A disk may be lost if the remaining servers are a quorum by their weights.
func TestADiskIsSparedByWeight(t *testing.T) {
	for _, x := range []struct {
		lines   string
		damaged int // number of a server, 0 for none
		spared  [3]bool
	}{
		{"", 0, [3]bool{true, true, true}},
		{"", 1, [3]bool{true, false, false}},
		{"\ngroup.1=1:2:3\nweight.1=3", 0, [3]bool{false, true, true}},
		{"\ngroup.1=1:2:3\nweight.1=3", 2, [3]bool{false, true, true}},
		{"\ngroup.1=1\ngroup.2=2:3\nweight.3=0", 0, [3]bool{false, false, true}},
	} {
		w := weighed(t, x.lines)
		if x.damaged > 0 {
			w.trouble.damaged[w.server(x.damaged)] = 1
		}
		for at, p := range w.servers {
			if spared := w.spared(p); spared != x.spared[at] {
				t.Errorf("%q with disk %d damaged: server %d spared: %v", x.lines, x.damaged, at+1, spared)
			}
		}
	}
}

// The others may have moved in a reconfig that is in the log but not in the files.
func TestAServerFindsOthersByTheConfigurationOfItsLog(t *testing.T) {
	for seed := uint64(1); seed < 50; seed++ {
		plan := Draw(seed)
		w := newWorld(plan, nil)
		w.wild = true
		w.plant()
		w.until(plan.WildMs, nil)
		for _, p := range w.servers {
			if !p.up || w.tally.Reconfigs < 2 || p.replica.Config().Version != w.newest || p.proposed != nil {
				continue
			}
			p.kill("")
			p.saved, p.pending = plan.configOf(p.place), nil
			p.start()
			if p.inForce.Version != 0 || p.proposed == nil || p.proposed.Version != w.newest {
				t.Errorf("seed %d: it goes by %x, and knows %v of the log's %x", seed, p.inForce.Version, p.proposed, w.newest)
			}
			return
		}
	}
	t.Error("no server has a reconfig in its log")
}

// A leader that does not see that it has no weight must still count correctly in
// everything else.
func TestAMaskChangesNoQuorum(t *testing.T) {
	found := 0
	for seed := range uint64(400) {
		r := branch(seed, "mask", 0)
		participants := []quorum.ID{0, 1, 2, 3, 4}[:3+r.below(3)]
		list := ""
		for _, id := range participants {
			list += lineOf(id, false, 0) + ","
		}
		for _, line := range weightLines(participants, r) {
			list += line + ","
		}
		list = list[:len(list)-1]
		instead := masked(list, participants[0])
		if instead == "" {
			continue
		}
		found++
		asked, shown := parseList(list), parseList(instead)
		if shown.Quorum().Weight(participants[0]) != 1 || asked.Quorum().Weight(participants[0]) != 0 || len(instead) != len(list) {
			t.Errorf("%s for %s", instead, list)
		}
		for set := range 1 << len(participants) {
			var some quorum.IDs
			for at, id := range participants {
				if set>>at&1 == 1 {
					some.Add(id)
				}
			}
			if asked.Quorum().Enough(some) != shown.Quorum().Enough(some) {
				t.Errorf("%v for %s is another quorum than for %s", some, instead, list)
			}
		}
		if real := (masks{shown.Text(): asked}).real(shown.WithVersion(7)); real.Text() != asked.WithVersion(7).Text() {
			t.Errorf("%s came of %s", real.Text(), list)
		}
	}
	if found < 20 {
		t.Errorf("%d lists are masked", found)
	}
}
