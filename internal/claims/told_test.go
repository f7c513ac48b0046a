package claims

import (
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
)

const toldLease = time.Second

// at is an instant, in milliseconds.
func at(ms int64) clock.Instant { return clock.Instant(milliseconds(ms)) }

// held returns a record with a live holder and a live successor.
func held(heartbeat uint64) Record {
	return Record{Holder: "l", Nonce: "l", Token: 5, LeaseMs: toldLease.Milliseconds(), Heartbeat: heartbeat,
		Next: &Next{ID: "n", Nonce: "n", LeaseMs: toldLease.Milliseconds(), Heartbeat: heartbeat}}
}

// waiting is a candidate that has read a record at 1 ms and waits behind its successor.
func waiting(t *testing.T, seen Record) *Candidate {
	t.Helper()
	c := NewMemory().Candidate(election.Claim{ID: "c", Nonce: "c", Lease: toldLease}, 1)
	c.Begin(at(0))
	if w := c.Answer(at(1), Answer{Kind: Shown, Record: seen, Version: "1"}); w.Kind != Wait {
		t.Fatalf("the candidate wants %d, not to wait", w.Kind)
	}
	return c
}

// TestRenewalThatIsToldIsNotRead: otherwise each of a hundred waiting candidates would read at
// every renewal.
func TestRenewalThatIsToldIsNotRead(t *testing.T) {
	c := waiting(t, held(1))
	for n := range int64(10) {
		w := c.Answer(at(300*(n+1)), Answer{Kind: Told, Record: held(uint64(n) + 2), Version: "v"})
		if w.Kind != Wait || w.Version != "v" {
			t.Fatalf("told of a renewal it wants %d of version %q", w.Kind, w.Version)
		}
		if until := at(300*(n+1) + toldLease.Milliseconds()); w.Until != until {
			t.Fatalf("it waits until %v, not for a lease from what it was told: %v", w.Until, until)
		}
	}
	if w := c.Answer(at(4300), Answer{Kind: Woken}); w.Kind != Read {
		t.Errorf("after a lease in which nothing was told it wants %d, not to read", w.Kind)
	}
}

// TestNothingIsWrittenByWhatIsTold: a candidate that has something to do reads first.
func TestNothingIsWrittenByWhatIsTold(t *testing.T) {
	released := Record{Token: 5, Heartbeat: 2}
	mine := held(2)
	mine.Next = &Next{ID: "c", Nonce: "c", LeaseMs: 1000, Heartbeat: 1, State: StateNominated}
	own := held(2)
	own.Holder, own.Nonce = "c", "c"
	outranked := held(2)
	outranked.Next.Priority = -1
	for what, record := range map[string]Record{
		"nobody holds it":                released,
		"it is asked to lead":            mine,
		"it finds itself":                own,
		"it outranks the successor":      outranked,
		"it is older than what was read": held(0),
		"it was taken back":              {Token: 4, Heartbeat: 9},
	} {
		c := waiting(t, held(1))
		if w := c.Answer(at(10), Answer{Kind: Told, Record: record, Version: "2"}); w.Kind != Read {
			t.Errorf("%s: the candidate wants %d, not to read", what, w.Kind)
		}
	}
}

// TestOldNewsHurryNobody: what a late watch delivers ends no lease earlier.
func TestOldNewsHurryNobody(t *testing.T) {
	b := NewMemory()
	b.See(at(0), at(1), held(7), "7")
	vacantAt := b.seen.VacantAt()
	for _, old := range []Record{held(6), {Token: 5, Heartbeat: 6}, {Token: 4, Heartbeat: 8}, {}} {
		if b.Tell(at(2), old, "old") {
			t.Errorf("%+v counts, though it is older", old)
		}
	}
	if got := b.seen.VacantAt(); got != vacantAt || b.seen.Version != "7" {
		t.Errorf("vacant at %v of version %s after old news, before at %v", got, b.seen.Version, vacantAt)
	}
}

// TestNewsForgetNoClaim: if the release of a claim failed, its write may still
// arrive, whatever a watch shows, because that may be older than the write.
func TestNewsForgetNoClaim(t *testing.T) {
	b := NewMemory()
	c := b.Candidate(election.Claim{ID: "a", Nonce: "a", Lease: toldLease}, 0)
	c.Begin(at(0))
	if w := c.Answer(at(1), Answer{Kind: Shown, Version: "2"}); w.Kind != Write {
		t.Fatalf("the candidate wants %d, not to write", w.Kind)
	}
	r := b.Release(election.Grant{Claim: election.Claim{Nonce: "a"}})
	r.Begin(at(2))
	r.Abandon()
	b.Tell(at(3), Record{}, "1")
	if known, _ := b.Claims(); known != 1 {
		t.Error("the claim is forgotten, and its write may take effect")
	}
}

// TestThoseWhoAreToldOfAFreePlaceComeInTurn: the first that takes it spares the
// others a read.
func TestThoseWhoAreToldOfAFreePlaceComeInTurn(t *testing.T) {
	free := held(2)
	free.Next = nil
	reads := 0
	for seed := range uint64(100) {
		c := waiting(t, held(1))
		c.seed = seed*0x9e3779b97f4a7c15 + 1
		w := c.Answer(at(10), Answer{Kind: Told, Record: free, Version: "2"})
		if w.Kind == Read {
			reads++
			continue
		}
		if w.Kind != Wait || w.Until > at(10).Add(toldLease/8) {
			t.Fatalf("it wants %d until %v", w.Kind, w.Until)
		}
		// Its turn: it reads, and takes the place at once.
		turn := w.Until
		if w = c.Answer(turn, Answer{Kind: Woken}); w.Kind != Read {
			t.Fatalf("when its turn has come it wants %d, not to read", w.Kind)
		}
		if w = c.Answer(turn+1, Answer{Kind: Shown, Record: free, Version: "2"}); w.Kind != Write {
			t.Fatalf("when it has read it wants %d, not to take the place", w.Kind)
		}
	}
	if reads > 5 {
		t.Errorf("%d of 100 read at once when the place is free", reads)
	}
}
