package raft_test

import (
	"testing"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/algo/raft"
)

// asked returns what a newcomer of three members decides when both others have answered and
// enough time has passed.
func asked(b, c raft.Told) (floor uint64, ok, founds, few bool) {
	const quietMs = 100
	n := raft.NewNewcomer(quietMs, []algo.ID{"b", "c"})
	n.Meet(0, "b")
	n.Meet(0, "c")
	for _, nowMs := range []int64{0, quietMs} {
		round, asks := n.Ask(nowMs)
		if !asks {
			break
		}
		n.Answer(nowMs, "b", round, b)
		if floor, ok = n.Answer(nowMs, "c", round, c); ok {
			break
		}
	}
	_, _, few = n.Few()
	return floor, ok, n.Founds(floor), few
}

// A member that remembers the founding, and knows of no election, may have missed every
// election: only with a majority of memories is it certain that there was none (raft-T8).
func TestNewcomerFoundsNoGroupThatIsRememberedWithAnotherDisk(t *testing.T) {
	fresh := raft.Told{}
	founder := raft.Told{Remembers: true}
	lost := raft.Told{Remembers: true, Lost: true}
	voted := raft.Told{Remembers: true, Lost: true, Term: 7}
	for name, c := range map[string]struct {
		b, c        raft.Told
		floor       uint64
		takes, few  bool
		foundsGroup bool
	}{
		"all are new":                       {fresh, fresh, 0, true, false, true},
		"one has founded it already":        {founder, fresh, 0, true, false, true},
		"one remembers another disk":        {lost, fresh, 0, false, true, false},
		"both remember another disk":        {lost, lost, 0, true, false, false},
		"one of two memories has elections": {lost, voted, 7, true, false, false},
		"the only memory has elections":     {voted, fresh, 7, false, true, false},
	} {
		floor, takes, founds, few := asked(c.b, c.c)
		if takes != c.takes || few != c.few || takes && (floor != c.floor || founds != c.foundsGroup) {
			t.Errorf("%s: floor %d, takes part %v, founds %v, too few %v", name, floor, takes, founds, few)
		}
	}
}
