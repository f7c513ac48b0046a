package raft

import (
	"testing"

	"github.com/conclave-project/conclave/algo"
)

// three are the members a, b and c, and the letters on their way.
type three struct {
	members map[algo.ID]*Machine
	post    []letter
	seen    func(now int64, id algo.ID, effect algo.Effect)
}

type letter struct {
	from, to algo.ID
	message  algo.Message
}

func newThree(seed uint64, seen func(now int64, id algo.ID, effect algo.Effect)) *three {
	w := &three{members: make(map[algo.ID]*Machine), seen: seen}
	ids := []algo.ID{"a", "b", "c"}
	for i, id := range ids {
		w.members[id] = New(0, Config{ID: id, LeaseMs: 1000, DriftPercent: 5, Seed: seed + uint64(i),
			State: algo.State{Config: algo.Config{Version: 1, Members: ids}}})
	}
	return w
}

func (w *three) step(now int64, id algo.ID, e algo.Event) {
	for _, effect := range w.members[id].Step(now, e) {
		if send, ok := effect.(algo.Send); ok {
			w.post = append(w.post, letter{id, send.To, send.Message})
		}
		w.seen(now, id, effect)
	}
}

func (w *three) tick(now int64) {
	for _, id := range []algo.ID{"a", "b", "c"} {
		w.step(now, id, algo.Tick{})
	}
}

// deliver delivers all letters that through lets pass, and all letters that result from
// them.
func (w *three) deliver(now int64, through func(letter) bool) {
	for again := true; again; {
		again = false
		waiting := w.post
		w.post = nil
		for _, one := range waiting {
			if through(one) {
				again = true
				w.step(now, one.to, algo.Received{From: one.from, Message: one.message})
			} else {
				w.post = append(w.post, one)
			}
		}
	}
}

// Two members campaign at once, and a wins the votes but has a slow disk, so its first
// heartbeats take their time. Meanwhile b, which has lost, tries again. c has voted for a
// and grants b no pre-vote: otherwise b would reach a higher term just when a has begun to
// lead, and end its leadership.
func TestLoserDoesNotOutrunTheWinner(t *testing.T) {
	for seed := uint64(1); seed <= 20; seed++ {
		for slowMs := int64(0); slowMs < 200; slowMs++ {
			var led, lost int
			w := newThree(seed, func(_ int64, _ algo.ID, effect algo.Effect) {
				switch effect.(type) {
				case algo.Lead:
					led++
				case algo.Lost:
					lost++
				}
			})
			w.step(1, "a", algo.Campaign{})
			w.step(1, "b", algo.Campaign{})
			w.deliver(1, func(l letter) bool { return l.message.Type != algo.RequestVote })
			w.deliver(1, func(l letter) bool { return l.from == "a" && l.to == "c" })
			for now := int64(1); now < 2000; now++ {
				w.tick(now)
				w.deliver(now, func(l letter) bool {
					switch l.message.Type {
					case algo.Heartbeat: // b receives it after c
						return now > slowMs && (l.to == "c" || now > slowMs+1)
					case algo.RequestVote:
						return now%10 == 0
					}
					return true
				})
			}
			if led != 1 || lost != 0 {
				t.Fatalf("seed %d, heartbeats after %d ms: %d leaderships began and %d were lost, expected one that lasts",
					seed, slowMs, led, lost)
			}
		}
	}
}

// A leader leads while another member has a higher term, because the leader was slow
// between winning the votes and its first heartbeats. If it released the others at once, it
// would break its promise to its holder that nobody else leads before UntilMs.
func TestLeaderOfALowerTermKeepsItsPromise(t *testing.T) {
	var until, led int64
	w := newThree(1, func(now int64, id algo.ID, effect algo.Effect) {
		switch e := effect.(type) {
		case algo.Lead:
			t.Logf("%d: %s leads term %d until %d", now, id, e.Term, e.UntilMs)
			switch {
			case id == "a" && until == 0:
				until = e.UntilMs
			case id != "a" && led == 0:
				led = now
			}
		case algo.Lost:
			t.Logf("%d: %s has lost term %d", now, id, e.Term)
		}
	})
	m := w.members
	slow := func(l letter) bool { return l.message.Type != algo.Heartbeat }
	w.step(0, "a", algo.Campaign{})
	w.deliver(1, slow) // a has all votes; its heartbeats take their time
	w.step(2, "b", algo.Campaign{})
	now := int64(2)
	for ; m["c"].role != candidate && m["b"].role != candidate && now < 900; now++ {
		w.tick(now)
		w.deliver(now, func(l letter) bool { return slow(l) && l.message.Type != algo.RequestVote })
	}
	higher, other := algo.ID("c"), algo.ID("b")
	if m["b"].role == candidate {
		higher, other = other, higher
	}
	t.Logf("%d: %s asks for votes in term %d", now, higher, m[higher].state.Term)
	w.deliver(now, func(l letter) bool { // the heartbeats reach the other member, and a leads
		return l.message.Type == algo.Heartbeat && l.to == other || l.message.Type == algo.HeartbeatReply && l.from == other
	})
	if until == 0 {
		t.Fatal("a does not lead")
	}
	w.step(now, other, algo.Campaign{})   // it waits because of its promise to the leader
	for ; led == 0 && now < 3000; now++ { // now everything arrives at once
		w.deliver(now, func(letter) bool { return true })
		w.tick(now)
	}
	if led != 0 && led < until {
		t.Errorf("another member leads at %d, and a was told that none does before %d", led, until)
	}
}
