package line

import (
	"testing"
	"time"

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

// TestTokenOfACutOffServerDoesNotCount: it was shown by one that never elected
// anybody with it. Counting on from it, a token would be so far ahead that a
// failover which forgets it is not made good by the stride.
func TestTokenOfACutOffServerDoesNotCount(t *testing.T) {
	wall := time.UnixMilli(1_700_000_000_000)
	var s Sight
	s.see(Record{Nonce: "a", Token: 1_700_000_000_000 + stride + 7200_000, Incarnation: "1"}, "1", 0) // not confirmed
	before := Record{Nonce: "b", Token: 1_700_000_000_000 + stride, Incarnation: "2"}
	s.see(before, "2", 1)
	forgotten := before.taken(election.Claim{ID: "c", Nonce: "c"}, s.known("2"), "2", wall)
	if after := before.taken(election.Claim{ID: "d", Nonce: "d"}, 0, "3", wall); after.Token <= forgotten.Token {
		t.Errorf("token %d after %d", after.Token, forgotten.Token)
	}
	s.see(Record{Nonce: "d", Token: before.Token + 5*stride, Incarnation: "2"}, "3", 2)
	if got := s.known("2"); got != before.Token+5*stride {
		t.Errorf("known are %d", got)
	}
}
