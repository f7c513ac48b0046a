package raft_test

import (
	"strings"
	"testing"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/algo/algotest"
	"github.com/conclave-project/conclave/algo/raft"
)

// silent is a member that has lost its disk and waits before it takes part (raft-T7).
type silent struct {
	algo.Machine
	untilMs int64
	begin   func(nowMs int64) algo.Machine
	wants   bool
}

// Step implements algo.Machine.
func (s *silent) Step(nowMs int64, event algo.Event) []algo.Effect {
	if s.begin != nil && nowMs >= s.untilMs {
		s.Machine, s.begin = s.begin(nowMs), nil
		if s.wants {
			effects := append([]algo.Effect(nil), s.Machine.Step(nowMs, algo.Campaign{})...)
			return append(effects, s.Machine.Step(nowMs, event)...)
		}
	}
	if s.begin == nil {
		return s.Machine.Step(nowMs, event)
	}
	switch event.(type) {
	case algo.Campaign:
		s.wants = true
	case algo.Withdraw:
		s.wants = false
	}
	return nil
}

// Status implements algo.Machine.
func (s *silent) Status() algo.Status {
	if s.begin != nil {
		return algo.Status{}
	}
	return s.Machine.Status()
}

// WakeMs implements algo.Machine.
func (s *silent) WakeMs() (int64, bool) {
	if s.begin != nil {
		return s.untilMs, true
	}
	return s.Machine.WakeMs()
}

// forgetful makes members that may lose their disks. They are silent for as many
// leases, and votes they give are in terms beyond all that are, or not.
func forgetful(leases int64, floored bool) func([]algo.ID) algotest.Maker {
	return func(founders []algo.ID) algotest.Maker {
		floors := map[algo.ID]uint64{}
		return func(nowMs int64, id algo.ID, state algo.State, seed uint64) algo.Machine {
			state.Config = algo.Config{Version: 1, Members: founders}
			cfg := raft.Config{ID: id, State: state, LeaseMs: 300, DriftPercent: driftPercent, Seed: seed}
			if state.Term > 0 || nowMs == 0 {
				cfg.State.Floor = floors[id]
				return raft.New(nowMs, cfg)
			}
			return &silent{untilMs: nowMs + leases*cfg.LeaseMs, begin: func(nowMs int64) algo.Machine {
				if floored {
					floors[id] = uint64(nowMs) * 1000 // a thousand elections a millisecond there are not
					cfg.State.Floor = floors[id]
				}
				return raft.New(nowMs, cfg)
			}}
		}
	}
}

func forgottenRun(seed uint64, leases int64, floored bool) []string {
	chaos := algotest.Chaos{Members: 3, DriftPpm: driftPpm, Forget: true, Elections: 200, MovesMax: 5000}
	if seed < 30 {
		chaos.Members = 5
	}
	return chaos.Run(seed, forgetful(leases, floored)).Wrong
}

// Any member may lose its disk, at any time, several at once: with a floor, and two
// leases of silence, no two lead (raft-T7).
func TestForgottenVotesElectNobodyBelowTheFloor(t *testing.T) {
	for seed := range uint64(60) {
		for _, wrong := range forgottenRun(seed, 2, true) {
			t.Fatalf("seed %d: %s", seed, wrong)
		}
	}
}

// Neither is enough without the other.
func TestForgottenVotesNeedSilenceAndFloor(t *testing.T) {
	for _, c := range []struct {
		name    string
		rule    string
		leases  int64
		floored bool
		first   uint64
	}{
		{"no silence", "raft-T3", 0, true, 1711},
		{"no floor", "raft-T1", 2, false, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := c.first; seed < c.first+300; seed++ { // begin with one that is known to show it
				for _, wrong := range forgottenRun(seed, c.leases, c.floored) {
					if strings.Contains(wrong, c.rule) {
						t.Logf("seed %d: %s", seed, wrong)
						return
					}
				}
			}
			t.Error("nothing was seen in 300 runs")
		})
	}
}
