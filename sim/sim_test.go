package sim

import (
	"flag"
	"os"
	"testing"
)

var (
	seeds = flag.Int("seeds", 20, "seeds to run")
	first = flag.Uint64("from", 1, "first seed")
	print = flag.Bool("print", false, "print the traces")
)

func TestSeeds(t *testing.T) {
	var sum Tally
	for i := range *seeds {
		seed := *first + uint64(i)
		var r Report
		if *print {
			r = Run(Draw(seed), os.Stdout)
		} else {
			r = Run(Draw(seed), nil)
		}
		sum = Sum(sum, r.Tally)
		if r.Err != nil {
			t.Errorf("seed %d at %d ms (linearizable %v): %v", seed, r.AtMs, r.Plan.Linearizable, r.Err)
		}
	}
	t.Logf("%+v", sum)
}
