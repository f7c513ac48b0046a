package zabmodel

import (
	"testing"

	"github.com/conclave-project/conclave/internal/model"
)

// A copy of a server behaves like the original from any state on, and both have the same
// hash.
func TestCopiesOfServersGoOnAlike(t *testing.T) {
	for _, scope := range []Scope{FullLinks, FullReconfig, FullSnapshot} {
		model.CheckFaithful(t.Fatalf, New(scope), 300)
	}
}

// Servers are interchangeable: every permutation of a state has the same hash.
func TestServersAreAlike(t *testing.T) {
	scope := Small
	scope.Starts = []Start{{Logs: []int{1, 2, 2}, Shown: 1}, {Logs: []int{2, 1, 2}, Shown: 1}, {Logs: []int{2, 2, 1}, Shown: 1}}
	scope.Elections, scope.Crashes = 0, 0
	if r := model.Explore(New(scope), model.Limits{}); r.States != 1 {
		t.Fatalf("%d first states that differ in the names of servers alone", r.States)
	}
}
