package raft

import (
	"testing"

	"github.com/conclave-project/conclave/algo"
)

// A leader leads, and another member has a higher term: the leader was slow between
// winning the votes and its first heartbeats. It releases all others at once, though it
// has promised its holder that nobody else leads before UntilMs.
func TestLeaderOfALowerTermKeepsItsPromise(t *testing.T) {
	ids := []algo.ID{"a", "b", "c"}
	m := map[algo.ID]*Machine{}
	for i, id := range ids {
		m[id] = New(0, Config{ID: id, LeaseMs: 1000, DriftPercent: 5, Seed: uint64(i + 1),
			State: algo.State{Config: algo.Config{Version: 1, Members: ids}}})
	}
	type letter struct {
		from, to algo.ID
		message  algo.Message
	}
	var post []letter
	var until, led int64
	step := func(now int64, id algo.ID, e algo.Event) {
		for _, effect := range m[id].Step(now, e) {
			switch e := effect.(type) {
			case algo.Send:
				post = append(post, letter{id, e.To, e.Message})
			case algo.Lead:
				t.Logf("%d: %s leads term %d until %d", now, id, e.Term, e.UntilMs)
				if id == "a" {
					if until == 0 {
						until = e.UntilMs
					}
				} else if led == 0 {
					led = now
				}
			case algo.Lost:
				t.Logf("%d: %s has lost term %d", now, id, e.Term)
			}
		}
	}
	// deliver delivers all letters that are let through, and what comes of them.
	deliver := func(now int64, through func(letter) bool) {
		for again := true; again; {
			again = false
			waiting := post
			post = nil
			for _, one := range waiting {
				if through(one) {
					again = true
					step(now, one.to, algo.Received{From: one.from, Message: one.message})
				} else {
					post = append(post, one)
				}
			}
		}
	}
	slow := func(l letter) bool { return l.message.Type != algo.Heartbeat }
	step(0, "a", algo.Campaign{})
	deliver(1, slow) // a has all votes; its heartbeats take their time
	step(2, "b", algo.Campaign{})
	now := int64(2)
	for ; m["c"].role != candidate && m["b"].role != candidate && now < 900; now++ {
		for _, id := range ids {
			step(now, id, algo.Tick{})
		}
		deliver(now, func(l letter) bool { return slow(l) && l.message.Type != algo.RequestVote })
	}
	higher, other := algo.ID("c"), algo.ID("b")
	if m["b"].role == candidate {
		higher, other = other, higher
	}
	t.Logf("%d: %s asks for votes in term %d", now, higher, m[higher].state.Term)
	deliver(now, func(l letter) bool { // the heartbeats come to the other, and a leads
		return l.message.Type == algo.Heartbeat && l.to == other || l.message.Type == algo.HeartbeatReply && l.from == other
	})
	if until == 0 {
		t.Fatal("a does not lead")
	}
	step(now, other, algo.Campaign{})     // it waits behind the leader
	for ; led == 0 && now < 3000; now++ { // and now everything arrives at once
		deliver(now, func(letter) bool { return true })
		for _, id := range ids {
			step(now, id, algo.Tick{})
		}
	}
	if led != 0 && led < until {
		t.Errorf("another member leads at %d, and a was told that none does before %d", led, until)
	}
}
