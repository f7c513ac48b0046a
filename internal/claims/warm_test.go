package claims

import (
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
)

// TestWarmUpThatFailedAnswersNoLaterNomination: not even if the answer to its
// own nomination was lost, or that nomination was withdrawn before.
func TestWarmUpThatFailedAnswersNoLaterNomination(t *testing.T) {
	const lease = 10 * time.Second
	for name, answered := range map[string]bool{"the answer is lost": true, "withdrawn before": false} {
		t.Run(name, func(t *testing.T) {
			memory, now := NewMemory(), clock.Instant(1)
			c := memory.Candidate(election.Claim{Election: "e", ID: "c", Nonce: "c", Lease: lease}, 0)
			record := Record{Holder: "a", Nonce: "a", Token: 7, LeaseMs: lease.Milliseconds()}
			show := func(state string) Want {
				now = now.Add(time.Millisecond)
				record.Heartbeat++
				record.Next = joined(c.claim, record.Next)
				record.Next.State = state
				return c.Answer(now, Answer{Kind: Shown, Record: record, Version: "v"})
			}
			c.Begin(now)
			if w := show(StateNominated); !w.Warm {
				t.Fatalf("the nomination asks for no warm-up: %+v", w)
			}
			if answered {
				c.Warmed(false)
				c.Answer(now, Answer{Kind: Woken})
				if w := show(StateNominated); w.Kind != Write || w.Record.Next.State != StateNotReady {
					t.Fatalf("the failure is not told: %+v", w)
				}
				c.Answer(now, Answer{Kind: Unanswered})
				c.Answer(now, Answer{Kind: Woken})
				show(StateNotReady)
			} else {
				c.Answer(now, Answer{Kind: Woken})
				c.Warmed(false)
				show("")
			}
			c.Answer(now, Answer{Kind: Woken})
			if w := show(StateNominated); !w.Warm {
				t.Errorf("the next nomination asks for no warm-up: %+v", w)
			}
		})
	}
}

// TestWarmUpIsAskedForOnce: by the first nomination, not again while it runs, and not again when
// it has succeeded, even if the nomination was withdrawn meanwhile.
func TestWarmUpIsAskedForOnce(t *testing.T) {
	c, now := NewMemory().Candidate(claimOfA, 0), at(1)
	record := Record{Holder: "h", Nonce: "h", Token: 7, Incarnation: "1", LeaseMs: 60_000, Heartbeat: 1}
	show := func(state string) Want {
		now++
		record.Heartbeat++
		record.Next = joined(c.claim, record.Next)
		record.Next.State = state
		w := c.Answer(now, shown(record, "v"))
		if w.Kind == Wait {
			c.Answer(now, Answer{Kind: Woken})
		}
		return w
	}
	c.Begin(now)
	record.Next = &Next{ID: "b", Nonce: "b", LeaseMs: 60_000, Heartbeat: 1, State: StateNominated}
	if w := c.Answer(now, shown(record, "v")); w.Kind != Wait || w.Warm {
		t.Fatalf("another one is nominated: %+v", w)
	}
	c.Answer(now, Answer{Kind: Woken})
	for i, state := range []string{"", StateNominated, StateNominated, "", StateNominated} {
		if w := show(state); w.Kind != Wait || w.Warm != (i == 1) {
			t.Fatalf("record %d, %q: %+v", i, state, w)
		}
	}
	c.Warmed(true)
	show("")
	if w := show(StateNominated); w.Warm || w.Kind != Write || w.Record.Next.State != StateReady {
		t.Errorf("nominated after that: %+v", w)
	}
}
