package electiontest

import (
	"slices"
	"testing"
)

func TestEveryStrikeIsATestOfTheSuite(t *testing.T) {
	for _, strike := range Strikes {
		if !slices.ContainsFunc(tests, func(one test) bool { return one.name == strike.Test }) {
			t.Errorf("the strike %q names the test %s, which the suite has not", strike.Name, strike.Test)
		}
		if (strike.Figure == "") != (strike.Means == "") {
			t.Errorf("the strike %q has a figure that means nothing, or the other way round", strike.Name)
		}
	}
}
