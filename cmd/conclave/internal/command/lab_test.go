package command

import "testing"

// TestURLNamesOneRun checks that a URL names the run that the page shows for
// it, or none.
func TestURLNamesOneRun(t *testing.T) {
	majority, untilMs, err := labSpec("majority")
	if err != nil || majority.Algorithm == "" || len(majority.Actions) == 0 {
		t.Fatalf("%+v, %v", majority, err)
	}
	for text, want := range map[string]string{
		"scenario=majority":         majority.String(),
		"scenario=majority&at=3000": majority.String(),
		"seed=5":                    "alg=raft&servers=5&seed=5",
		"scenario=majority&seed=5":  "alg=raft&servers=5&seed=5",
		"at=3000":                   "alg=raft&servers=5&seed=1",
	} {
		spec, until, err := labSpec(text)
		if err != nil || spec.String() != want || (want == majority.String()) != (until == untilMs) {
			t.Errorf("%s: %s until %d ms, %v", text, spec, until, err)
		}
	}
	for _, text := range []string{"scenario=nothing", "scenario=", "nothing", "nothing=1"} {
		if spec, _, err := labSpec(text); err == nil {
			t.Errorf("%q is %s", text, spec)
		}
	}
}
