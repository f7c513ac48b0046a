package zab_test

import (
	"fmt"
	"testing"

	"github.com/conclave-project/conclave/internal/zab/zabtest"
)

// ensemble returns the shapes that random runs take in turn. A short history makes DIFF from
// disk and SNAP frequent; a small counter makes epochs roll over.
func ensemble(seed uint64) zabtest.Options {
	shapes := []zabtest.Options{
		{Participants: 3, HistoryMax: 100},
		{Participants: 3, HistoryMax: 3, Observers: 1},
		{Participants: 5, HistoryMax: 10},
		{Participants: 3, HistoryMax: 20, CounterMax: 25},
		{Participants: 4, HistoryMax: 5, Observers: 2},
		{Participants: 1, HistoryMax: 5, Observers: 1},
		{Participants: 3, HistoryMax: 4, Observers: 2, Masters: true},
		{Participants: 5, HistoryMax: 20, Observers: 1, Masters: true},
	}
	o := shapes[seed%uint64(len(shapes))]
	o.Seed = seed
	return o
}

const (
	seeds  = 150
	wildMs = 20_000
)

func TestRandomRunsLoseNothingDisagreeOnNothingAndHeal(t *testing.T) {
	var sum zabtest.Tally
	for seed := range uint64(seeds) {
		w := zabtest.Chaos(ensemble(seed), wildMs)
		if err := w.Err(); err != nil {
			o := ensemble(seed)
			o.KeepTrace = true
			trace, _ := zabtest.Chaos(o, wildMs).Trace()
			t.Fatalf("seed %d: %v\n%s", seed, err, trace[max(0, len(trace)-6000):])
		}
		add(&sum, w.Tally())
	}
	t.Logf("%+v", sum)
	for name, count := range map[string]int{
		"commits": sum.Committed, "crashes": sum.Crashes, "syncs": sum.Syncs, "DIFF": sum.Diff,
		"TRUNC": sum.Trunc, "SNAP": sum.Snap, "log reads": sum.LogReads, "reloads": sum.Reloads,
		"revalidations": sum.Revalidated, "observers behind masters": sum.Behind,
	} {
		if count < seeds/10 {
			t.Errorf("only %d %s in all runs: they do not test", count, name)
		}
	}
}

func add(sum *zabtest.Tally, t zabtest.Tally) {
	sum.Committed += t.Committed
	sum.Elections += t.Elections
	sum.Crashes += t.Crashes
	sum.Serves += t.Serves
	sum.Syncs += t.Syncs
	sum.Diff += t.Diff
	sum.Trunc += t.Trunc
	sum.Snap += t.Snap
	sum.LogReads += t.LogReads
	sum.Reloads += t.Reloads
	sum.Revalidated += t.Revalidated
	sum.Behind += t.Behind
}

func TestTheSameSeedGivesTheSameRun(t *testing.T) {
	for seed := range uint64(12) {
		_, first := zabtest.Chaos(ensemble(seed), wildMs).Trace()
		_, again := zabtest.Chaos(ensemble(seed), wildMs).Trace()
		_, other := zabtest.Chaos(ensemble(seed+12), wildMs).Trace()
		if first != again || first == other {
			t.Fatalf("seed %d: runs %x and %x, seed %d: %x", seed, first, again, seed+12, other)
		}
	}
}

// mutantSeedsMax is the number of seeds for which a known bug may stay hidden.
const mutantSeedsMax = 400

func TestEveryMutantIsFound(t *testing.T) {
	for _, mutant := range zabtest.Mutants() {
		t.Run(fmt.Sprint(mutant), func(t *testing.T) {
			t.Attr("what", mutant.What())
			for seed := range uint64(mutantSeedsMax) {
				o := ensemble(seed)
				o.Mutant = mutant
				if err := zabtest.Chaos(o, wildMs).Err(); err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Errorf("not found in %d runs", mutantSeedsMax)
		})
	}
}
