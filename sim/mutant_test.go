package sim

import "testing"

// TestMutants
func TestMutants(t *testing.T) {
	for _, m := range Mutants() {
		found := false
		for seed := uint64(1); seed <= uint64(*seeds) && !found; seed++ {
			plan := Draw(seed)
			plan.Mutant = m
			if r := Run(plan, nil); r.Err != nil {
				found = true
				msg := r.Err.Error()
				t.Logf("%-26v seed %4d  %.140s", m, seed, msg)
			}
		}
		if !found {
			t.Errorf("%v is not found", m)
		}
	}
}
