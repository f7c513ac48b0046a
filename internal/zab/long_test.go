package zab_test

import (
	"flag"
	"testing"

	"github.com/conclave-project/conclave/internal/zab/zabtest"
)

var longSeeds = flag.Uint64("seeds", 0, "run this many more random runs")

func TestMoreRandomRunsWhenAskedFor(t *testing.T) {
	for seed := uint64(seeds); seed < seeds+*longSeeds; seed++ {
		if err := zabtest.Chaos(ensemble(seed), wildMs).Err(); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}
