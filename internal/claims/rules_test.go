package claims

import (
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
)

// TestTokensGrowOverWhatWasForgotten: the store grants to a, fails over to a copy
// that does not know it, and grants to b, whose clock is behind.
func TestTokensGrowOverWhatWasForgotten(t *testing.T) {
	wall := time.UnixMilli(1_700_000_000_000)
	claim := func(id string) election.Claim { return election.Claim{ID: id, Nonce: id, Lease: time.Second} }
	for what, old := range map[string]Record{
		"a token of a host whose clock was an hour fast": {Incarnation: "1", Token: election.Token(wall.Add(time.Hour).UnixMilli())},
		"an old token": {Incarnation: "1", Token: 5},
	} {
		forgotten := old
		for i := range 10 {
			forgotten = forgotten.taken(claim("a"), 0, "1", wall.Add(time.Hour+time.Duration(i)*time.Minute))
		}
		after := old.taken(claim("b"), 0, "2", wall)
		if after.Token <= forgotten.Token {
			t.Errorf("%s: b got %d after %d, which was forgotten", what, after.Token, forgotten.Token)
		}
		next := after.released(wall, election.ReasonResigned).taken(claim("c"), 0, "2", wall)
		if next.Token != after.Token+1 {
			t.Errorf("%s: c got %d after %d, though nothing was forgotten", what, next.Token, after.Token)
		}
	}
}

// TestTokenOfAPartitionedServerDoesNotCount: a server showed it that never elected
// anybody with it. Counting on from it would put a token so far ahead that the
// stride does not make up for a failover that forgets it.
func TestTokenOfAPartitionedServerDoesNotCount(t *testing.T) {
	wall := time.UnixMilli(1_700_000_000_000)
	var s Sight
	s.see(0, 0, Record{Nonce: "a", Token: 1_700_000_000_000 + stride + 7200_000, Incarnation: "1"}, "1") // not confirmed
	before := Record{Nonce: "b", Token: 1_700_000_000_000 + stride, Incarnation: "2"}
	s.see(1, 1, before, "2")
	forgotten := before.taken(election.Claim{ID: "c", Nonce: "c"}, s.known("2"), "2", wall)
	if after := before.taken(election.Claim{ID: "d", Nonce: "d"}, 0, "3", wall); after.Token <= forgotten.Token {
		t.Errorf("token %d after %d", after.Token, forgotten.Token)
	}
	s.see(2, 2, Record{Nonce: "d", Token: before.Token + 5*stride, Incarnation: "2"}, "3")
	if got := s.known("2"); got != before.Token+5*stride {
		t.Errorf("known are %d", got)
	}
}

// TestAnswerThatWasOvertakenTakesNothingBack: two calls read at the same time. The
// answer to the first Read arrives last, and is older than the other answer.
func TestAnswerThatWasOvertakenTakesNothingBack(t *testing.T) {
	old := Record{Token: 1, Heartbeat: 1}
	lead := Record{Token: 2, Nonce: "a", LeaseMs: 1000, Heartbeat: 2}
	over := Record{Token: 2, Heartbeat: 3}
	var s Sight
	s.see(0, 1, old, "1")
	s.see(3, 4, lead, "2")
	s.see(2, 5, old, "1")
	if s.Version != "2" || s.notBefore != 0 {
		t.Errorf("an older answer counts: version %s, vacant not before %d", s.Version, s.notBefore)
	}
	s.see(6, 7, over, "3")
	if at := s.VacantAt(); at > 7 {
		t.Errorf("vacant at %d, though the holder has released it", at)
	}
	s.see(8, 9, lead, "4")
	s.see(10, 11, old, "5")
	if at := s.VacantAt(); at != clock.Instant(9+time.Second) {
		t.Errorf("vacant at %d: a record that was taken back frees nothing for a lease", at)
	}
}

// TestAnswerThatWasOvertakenForgetsNoClaim: if the release of a claim failed, its
// write may still arrive, whatever a Read sent before the write shows.
func TestAnswerThatWasOvertakenForgetsNoClaim(t *testing.T) {
	b := NewMemory()
	c := b.Candidate(election.Claim{ID: "a", Nonce: "a", Lease: time.Second}, 0)
	c.Begin(0)
	if w := c.Answer(1, Answer{Kind: Shown, Version: "2"}); w.Kind != Write {
		t.Fatalf("the candidate wants %d, not to write", w.Kind)
	}
	r := b.Release(election.Grant{Claim: election.Claim{Nonce: "a"}})
	r.Begin(2)
	r.Abandon()
	b.See(0, 3, Record{}, "1")
	if known, _ := b.Claims(); known != 1 {
		t.Error("the claim is forgotten, and its write may take effect")
	}
	b.See(3, 4, Record{}, "3")
	if known, _ := b.Claims(); known != 0 {
		t.Error("the claim is never forgotten")
	}
}
