package raft_test

import (
	"flag"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/algo/algotest"
	"github.com/conclave-project/conclave/algo/raft"
)

var elections = flag.Int("elections", 3000, "how many elections TestNeverTwoLeaders simulates")

var forgotten = flag.Int("forgotten", 30, "how many runs TestMembersThatLostTheirDisksElectNoTwo makes")

// driftPercent, and the greatest gain of one clock with which two clocks stay within it.
const (
	driftPercent = 5
	driftPpm     = 24_000
)

// founded returns a maker of members that are founders or are added later.
func founded(edit func(*int64, *raft.Config)) func(founders []algo.ID) algotest.Maker {
	return func(founders []algo.ID) algotest.Maker {
		return func(nowMs int64, id algo.ID, state algo.State, seed uint64) algo.Machine {
			if state.Config.Version == 0 && slices.Contains(founders, id) {
				state.Config = algo.Config{Version: 1, Members: founders}
			}
			cfg := raft.Config{ID: id, State: state, LeaseMs: 300, DriftPercent: driftPercent, Seed: seed}
			if edit != nil {
				edit(&nowMs, &cfg)
			}
			return raft.New(nowMs, cfg)
		}
	}
}

// runs are the kinds of runs, used in turn.
var runs = []algotest.Chaos{
	{Members: 3, DriftPpm: driftPpm},
	{Members: 5, DriftPpm: driftPpm},
	{Members: 3, DriftPpm: driftPpm, Reconfigure: true},
	{Members: 1, DriftPpm: driftPpm, Reconfigure: true},
	{Members: 4, DriftPpm: driftPpm, Reconfigure: true},
	{Members: 7, Calm: true},
	{Members: 2, DriftPpm: driftPpm},
	{Members: 3, DriftPpm: driftPpm, Collapse: true, QuietMs: 600},
	{Members: 5, DriftPpm: driftPpm, Collapse: true, QuietMs: 600},
}

// TestNeverTwoLeaders runs elections under all faults and looks for two leaders in a term
// (raft-T1) and for two that lead at the same time (raft-T3).
func TestNeverTwoLeaders(t *testing.T) {
	const workers = 2
	var mu sync.Mutex
	total, collapses, seed := 0, 0, uint64(0)
	var wait sync.WaitGroup
	for range workers {
		wait.Go(func() {
			for {
				mu.Lock()
				seed++
				mine, done := seed, total >= *elections || t.Failed()
				mu.Unlock()
				if done {
					return
				}
				chaos := runs[mine%uint64(len(runs))]
				chaos.Elections, chaos.MovesMax = 100, 3000
				w := chaos.Run(mine, founded(nil))
				for _, wrong := range w.Wrong {
					t.Errorf("seed %d: %s", mine, wrong)
				}
				mu.Lock()
				total += w.Elections
				collapses += w.Collapses
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	t.Logf("%d elections in %d runs, forgotten %d times", total, seed, collapses)
	if uint64(total) < seed*20 || uint64(collapses) < seed {
		t.Errorf("only %d elections in %d runs: the test does not test", total, seed)
	}
}

// After all faults have ended, one member leads, whatever happened before.
func TestOneLeadsWhenFaultsEnd(t *testing.T) {
	for seed := range uint64(150) {
		chaos := runs[seed%uint64(len(runs))]
		chaos.Elections, chaos.MovesMax = 20, 200
		w := chaos.Run(seed, founded(nil))
		w.Network = algotest.Network{DelayMinUs: 200, DelayMaxUs: 3000}
		w.CrashPerMille = 0
		w.Heal()
		for _, id := range algotest.IDs(chaos.Members + 2) {
			if !chaos.Reconfigure && int(id[0]-'a') >= chaos.Members {
				continue
			}
			w.Start(id)
			w.Thaw(id)
			w.Do(id, algo.Campaign{})
		}
		w.Run(4000)
		leaders := w.Leaders()
		w.Run(4000)
		if after := w.Leaders(); len(leaders) != 1 || !slices.Equal(leaders, after) {
			t.Fatalf("seed %d: %v lead, and later %v\n%v", seed, leaders, after, w)
		}
	}
}

// The checks find what they are meant to find: each of these cases breaks one rule.
func TestBrokenRulesAreSeen(t *testing.T) {
	for _, c := range []struct {
		name  string
		rule  string
		chaos algotest.Chaos
		edit  func(*int64, *raft.Config)
		first uint64
	}{
		{"clocks differ by more than the bound", "raft-T3", algotest.Chaos{Members: 3, DriftPpm: 400_000}, nil, 10},
		{"a member comes back without its disk", "raft-T1", algotest.Chaos{Members: 3, Forget: true}, nil, 1},
		{"a leader leaves out no margin", "raft-T3", algotest.Chaos{Members: 3, DriftPpm: 300_000},
			func(_ *int64, c *raft.Config) { c.DriftPercent = 0 }, 8},
		{"a restarted member votes at once", "raft-T3", algotest.Chaos{Members: 3},
			func(nowMs *int64, c *raft.Config) { *nowMs -= c.LeaseMs }, 132},
		{"a restarted member forgets its configuration", "raft-T1", algotest.Chaos{Members: 3, Reconfigure: true},
			func(_ *int64, c *raft.Config) { c.State.Config.Version = min(1, c.State.Config.Version) }, 52},
		{"an idle election is forgotten without its floor", "T1", algotest.Chaos{Members: 3, Collapse: true, QuietMs: 600},
			func(_ *int64, c *raft.Config) { c.State.Floor = 0 }, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.chaos.Elections, c.chaos.MovesMax = 200, 5000
			for i := range uint64(300) {
				seed := (c.first + i) % 300 // begin with a seed that is known to show it
				for _, wrong := range c.chaos.Run(seed, founded(c.edit)).Wrong {
					if strings.Contains(wrong, c.rule) {
						t.Logf("seed %d: %s", seed, wrong)
						return
					}
				}
			}
			t.Error("nothing was seen in 300 runs")
		})
	}
}
