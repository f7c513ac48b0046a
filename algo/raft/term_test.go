package raft_test

import (
	"math"
	"testing"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/algo/raft"
)

func member(term uint64) *raft.Machine {
	return raft.New(0, raft.Config{ID: "a", LeaseMs: 1000, DriftPercent: 5, Seed: 1,
		State: algo.State{Term: term, Config: algo.Config{Version: 1, Members: []algo.ID{"a", "b", "c"}}}})
}

// elect lets the machine campaign, with b voting for it, and returns the term in which it
// leads, 0 if it does not.
func elect(m *raft.Machine) uint64 {
	m.Step(5000, algo.Campaign{})
	for now := int64(5000); now < 20_000; now += 10 {
		effects := append([]algo.Effect(nil), m.Step(now, algo.Tick{})...)
		for len(effects) > 0 {
			one := effects[0]
			effects = effects[1:]
			if lead, ok := one.(algo.Lead); ok {
				return lead.Term
			}
			send, ok := one.(algo.Send)
			if !ok || send.To != "b" {
				continue
			}
			reply := algo.Message{Term: send.Term, Round: send.Round, Granted: true}
			switch send.Type {
			case algo.PreVote:
				reply.Type = algo.PreVoteReply
			case algo.RequestVote:
				reply.Type = algo.RequestVoteReply
			case algo.Heartbeat:
				reply.Type, reply.Config = algo.HeartbeatReply, send.Config
			default:
				continue
			}
			effects = append(effects, m.Step(now, algo.Received{From: "b", Message: reply})...)
		}
	}
	return 0
}

// TestImpossibleTermsChangeNothing (raft-T6): whatever the message is, the member
// afterwards leads in the term after its own.
func TestImpossibleTermsChangeNothing(t *testing.T) {
	for _, mine := range []uint64{0, 7, 1 << 40} {
		for _, term := range []uint64{math.MaxUint64, 1 << 63, mine + 1<<32 + 1} {
			m := member(mine)
			for kind := algo.MessageType(0); kind < 32; kind++ {
				for _, message := range []algo.Message{
					{Type: kind, Term: term, Round: 1, Granted: true, Config: algo.Config{Version: 1}},
					{Type: kind, Term: term, Round: 1, TransferTerm: term},
					{Type: kind, Term: mine + 1, TransferTerm: mine + 2},
					{Type: kind, Term: mine + 1, Config: algo.Config{Term: term, Version: 9, Members: []algo.ID{"b"}}},
				} {
					if effects := m.Step(1, algo.Received{From: "b", Message: message}); len(effects) != 0 {
						t.Errorf("term %d, %v: %v", mine, message, effects)
					}
				}
			}
			if led := elect(m); led != mine+1 {
				t.Errorf("after a term of %d it leads in %d, expected %d", term, led, mine+1)
			}
		}
	}
}

// TestMemberThatWasAwayForLongAdoptsTheTerm (raft-T6).
func TestMemberThatWasAwayForLongAdoptsTheTerm(t *testing.T) {
	m := member(7)
	m.Step(1, algo.Received{From: "b", Message: algo.Message{Type: algo.Heartbeat, Term: 7 + 1<<32, Round: 1,
		Config: algo.Config{Version: 1}}})
	if s := m.Status(); s.Term != 7+1<<32 || s.Leader != "b" {
		t.Errorf("%+v", s)
	}
}

// TestLastTermElectsNobody: and no process ends.
func TestLastTermElectsNobody(t *testing.T) {
	m := member(algo.TermMax)
	if led := elect(m); led != 0 {
		t.Errorf("leads in term %d", led)
	}
	m.Step(30_000, algo.Received{From: "b", Message: algo.Message{Type: algo.TimeoutNow, Term: algo.TermMax}})
	if s := m.Status(); s.Term != algo.TermMax || s.Leads {
		t.Errorf("%+v", s)
	}
}
