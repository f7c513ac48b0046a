package claims

import (
	"errors"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
)

// TestOnlyAnAcknowledgedWriteIsKnown: a waiter whose write was not acknowledged reads before it
// counts on that write, whatever it wrote.
func TestOnlyAnAcknowledgedWriteIsKnown(t *testing.T) {
	record := Record{Holder: "h", Nonce: "h", Token: 5, Incarnation: "1", LeaseMs: 60_000, Heartbeat: 1}
	for _, refused := range []Answer{{Kind: Conflict}, {Kind: NotYet}, {Kind: Unanswered}} {
		b := NewMemory()
		c := b.Candidate(claimOfA, 0)
		c.Begin(at(0))
		asks(t, c.Answer(at(1), shown(record, "1")), Write)
		w := c.Answer(at(2), refused)
		if w.Kind == Pause {
			w = c.Answer(at(200), Answer{Kind: Woken})
		}
		if w.Kind != Read || b.seen.Record.Next != nil || b.seen.Version != "1" {
			t.Errorf("%v: wants %d, and takes itself for the successor: %+v", refused.Kind, w.Kind, b.seen.Record)
		}
	}
}

// TestClaimThatFindsItselfWithdraws (record-R7): a take without an answer is no grant, even if
// the record shows it. The candidate removes it, and takes again with another token.
func TestClaimThatFindsItselfWithdraws(t *testing.T) {
	c := NewMemory().Candidate(claimOfA, 0)
	c.Begin(at(0))
	taken := asks(t, c.Answer(at(1), shown(Record{Token: 4, Incarnation: "1", Heartbeat: 7}, "1")), Write).Record
	asks(t, c.Answer(at(2), Answer{Kind: Unanswered}), Pause)
	asks(t, c.Answer(at(200), Answer{Kind: Woken}), Read)
	w := asks(t, c.Answer(at(201), shown(taken, "2")), Write)
	if undone := w.Record; w.Version != "2" || undone.Nonce != "" || undone.Holder != "" || undone.Token != taken.Token || undone.Heartbeat <= taken.Heartbeat {
		t.Fatalf("writes %+v over version %s, not that nobody holds it", undone, w.Version)
	}
	undone := w.Record
	asks(t, c.Answer(at(202), Answer{Kind: Written, Version: "3"}), Read)
	again := asks(t, c.Answer(at(203), shown(undone, "3")), Write).Record
	if again.Nonce != "a" || again.Token <= taken.Token || again.Heartbeat <= taken.Heartbeat {
		t.Fatalf("takes again with %+v after %+v", again, taken)
	}
	if g := asks(t, c.Answer(at(204), Answer{Kind: Written, Version: "4"}), Done).Grant; g.Token != again.Token || g.Sent != at(203) {
		t.Errorf("granted %+v", g)
	}
}

// TestReleasedClaimWritesNothing (record-R5): its Acquire may still wait for the answer to a
// read when the release has ended.
func TestReleasedClaimWritesNothing(t *testing.T) {
	b := NewMemory()
	c := b.Candidate(claimOfA, 0)
	asks(t, c.Begin(at(0)), Read)
	asks(t, b.Release(election.Grant{Claim: claimOfA}).Begin(at(1)), Done)
	if w := asks(t, c.Answer(at(2), shown(Record{Token: 4}, "1")), Done); !errors.Is(w.Err, ErrReleased) {
		t.Errorf("ends with %v", w.Err)
	}
}

// TestStoreThatAnswersIsNotGivenUp: a candidate gives up when the store has not answered for a
// lease, not when it fails for a moment after it has answered for long, with records or with
// refusals.
func TestStoreThatAnswersIsNotGivenUp(t *testing.T) {
	occupied := Record{Holder: "h", Nonce: "h", Token: 5, Incarnation: "1", LeaseMs: 60_000, Heartbeat: 1,
		Next: &Next{ID: "b", Nonce: "b", Priority: 5, LeaseMs: 60_000, Heartbeat: 1}}
	free := occupied
	free.Next = nil
	const step = 1000
	for _, record := range []Record{occupied, free} {
		c := NewMemory().Candidate(claimOfA, 0)
		w := c.Begin(at(0))
		now := int64(0)
		for ; now < 10*claimOfA.Lease.Milliseconds(); now += step {
			switch w.Kind {
			case Read:
				w = c.Answer(at(now), shown(record, "1"))
			case Write:
				w = c.Answer(at(now), Answer{Kind: Conflict})
			case Wait:
				w = c.Answer(at(now), Answer{Kind: Woken})
			}
		}
		for w.Kind == Wait {
			w = c.Answer(at(now), Answer{Kind: Woken})
		}
		if w = c.Answer(at(now), Answer{Kind: Unanswered}); w.Kind != Pause {
			t.Errorf("wants %d after one failure: %v", w.Kind, w.Err)
		}
	}
}

// TestReleaseOfAClaimThatIsGoneWritesNothing: the record belongs to others now, and no write of
// the claim can arrive.
func TestReleaseOfAClaimThatIsGoneWritesNothing(t *testing.T) {
	b := NewMemory()
	c := b.Candidate(claimOfA, 0)
	c.Begin(at(0))
	record := Record{Holder: "h", Nonce: "h", Token: 5, LeaseMs: 60_000, Heartbeat: 1}
	asks(t, c.Answer(at(1), shown(record, "1")), Write)
	asks(t, c.Answer(at(2), Answer{Kind: Written, Version: "2"}), Wait)
	r := b.Release(election.Grant{Claim: claimOfA})
	asks(t, r.Begin(at(3)), Read)
	record.Next = &Next{ID: "b", Nonce: "b", LeaseMs: 60_000, Heartbeat: 1}
	if w := asks(t, r.Answer(at(4), shown(record, "3")), Done); w.Err != nil {
		t.Error(w.Err)
	}
	if known, _ := b.Claims(); known != 0 {
		t.Error("the claim is still known")
	}
}

// TestTakeCountsOnFromWhatWasForgotten (record-R4): the store has gone back to an older record of
// the same incarnation, and this process has seen a later token.
func TestTakeCountsOnFromWhatWasForgotten(t *testing.T) {
	b := NewMemory()
	b.See(at(0), at(1), Record{Holder: "h", Nonce: "h", Token: 9, Incarnation: "1", LeaseMs: 1000, Heartbeat: 5}, "5")
	c := b.Candidate(claimOfA, 0)
	c.Begin(at(2))
	older, version := Record{Token: 4, Incarnation: "1", Heartbeat: 2}, "6"
	show := func(now int64) (w Want) {
		for w = c.Answer(at(now), shown(older, version)); w.Kind == Write && w.Record.Nonce == ""; { // its place in the queue
			older, version = w.Record, "7"
			asks(t, c.Answer(at(now), Answer{Kind: Written, Version: version}), Read)
			w = c.Answer(at(now), shown(older, version))
		}
		return w
	}
	asks(t, show(3), Wait) // for the lease of the holder that the store has forgotten
	asks(t, c.Answer(at(1002), Answer{Kind: Woken}), Read)
	if w := asks(t, show(1003), Write); w.Record.Nonce != "a" || w.Record.Token <= 9 {
		t.Errorf("takes with token %d, and 9 was given", w.Record.Token)
	}
}

// TestEndOfALeadershipStands: who leads next does not change why the last one has ended, and the
// heartbeat of a release is a new one (record-R2).
func TestEndOfALeadershipStands(t *testing.T) {
	taken := Record{Heartbeat: 7}.taken(claimOfA, 0, "1", time.UnixMilli(3000))
	released := taken.released(time.UnixMilli(7000), election.ReasonResigned)
	if released.Heartbeat <= taken.Heartbeat {
		t.Errorf("released with heartbeat %d after %d", released.Heartbeat, taken.Heartbeat)
	}
	next := released.taken(claimOfA, 0, "1", time.UnixMilli(9000)).History
	if len(next) != 2 || next[0].Reason != election.ReasonResigned.String() || !next[0].Until.Equal(time.UnixMilli(7000)) {
		t.Errorf("after the next take: %+v", next)
	}
}
