package zab_test

import (
	"flag"
	"fmt"
	"testing"

	"github.com/conclave-project/conclave/internal/zab/zabtest"
)

var (
	oneSeed   = flag.Int64("seed", -1, "print the trace of this random run")
	oneMutant = flag.Int("mutant", 0, "with this known bug")
)

func TestPrintOneRunWhenAskedFor(t *testing.T) {
	if *oneSeed < 0 {
		return
	}
	o := ensemble(uint64(*oneSeed))
	o.KeepTrace, o.Mutant = true, zabtest.Mutant(*oneMutant)
	w := zabtest.Chaos(o, wildMs)
	trace, _ := w.Trace()
	fmt.Print(trace)
	t.Log(w.Err())
}
