package storm

import (
	"flag"
	"fmt"
	"testing"
	"testing/synctest"
)

var (
	first  = flag.Uint64("storm", 1, "the seed of the first storm")
	storms = flag.Uint64("storms", 0, "how many storms, of seeds one after the other; 0 for a few")
	faults = flag.Int("faults", 80, "how many faults a storm has")
	prints = flag.Bool("print", false, "print what the storms do")
)

// Prints reports whether storms should print what they do.
func Prints() bool { return *prints }

// A Played is a Storm with its store and everything that it breaks.
type Played interface {
	Play(faults int) // returns when all is over and judged
	Why() string
	Said() string
	Sum() string
}

// Through plays storms, each in a bubble of its own: a few, or as many as the flag says.
func Through(t *testing.T, few uint64, begin func(t *testing.T, seed uint64) Played) {
	if *storms > 0 {
		few = *storms
	}
	for seed := *first; seed < *first+few; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := begin(t, seed)
				if w.Play(*faults); w.Why() != "" {
					t.Fatalf("%s\n%s", w.Why(), w.Said())
				}
				t.Logf("%d faults, %s", *faults, w.Sum())
			})
		})
	}
}

// Finds fails the test if no storm of the first seeds finds a bug that was put in on
// purpose.
func Finds(t *testing.T, what string, seeds uint64, begin func(t *testing.T, seed uint64) Played) {
	t.Helper()
	t.Attr("what", what)
	for seed := range seeds {
		why := ""
		synctest.Test(t, func(t *testing.T) {
			w := begin(t, seed+1)
			w.Play(80)
			why = w.Why()
		})
		if why != "" {
			t.Logf("seed %d: %s", seed+1, why)
			return
		}
	}
	t.Errorf("%d seeds have not found it", seeds)
}
