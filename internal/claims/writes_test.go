package claims

import (
	"errors"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
)

var claimOfA = election.Claim{ID: "a", Nonce: "a", Priority: 1, Lease: 3 * time.Second}

// asks fails if the store is not asked for what is expected, and returns what it is asked.
func asks(t *testing.T, w Want, kind WantKind) Want {
	t.Helper()
	if w.Kind != kind {
		t.Fatalf("wants %d (%+v), not %d", w.Kind, w, kind)
	}
	return w
}

func shown(record Record, version string) Answer {
	return Answer{Kind: Shown, Record: record, Version: version, Incarnation: "1", Wall: time.UnixMilli(3)}
}

// TestGrantIsWhatWasWritten: a candidate takes over from a successor that has been silent, and
// its grant has the token that it wrote, counts from when it wrote, and names who outranks it.
// No heartbeat comes twice, not even after the store has lost one (record-R2).
func TestGrantIsWhatWasWritten(t *testing.T) {
	b := NewMemory()
	released := Record{Token: 4, Incarnation: "1", Heartbeat: 7,
		Next: &Next{ID: "b", Nonce: "b", Priority: 5, LeaseMs: 1000, Heartbeat: 1}}
	c := b.Candidate(claimOfA, 0)
	asks(t, c.Begin(at(0)), Read)
	if w := asks(t, c.Answer(at(1), shown(released, "1")), Wait); w.Until != at(1001) || w.Version != "1" {
		t.Fatalf("waits until %v for another version than %q, not until b is gone", w.Until, w.Version)
	}
	asks(t, c.Answer(at(1001), Answer{Kind: Woken}), Read)
	taken := asks(t, c.Answer(at(1001), shown(released, "1")), Write).Record
	if taken.Nonce != "a" || taken.Token != 5 || taken.Heartbeat != 8 {
		t.Fatalf("takes with %+v", taken)
	}
	grant := asks(t, c.Answer(at(1300), Answer{Kind: Written, Version: "2"}), Done).Grant
	if grant.Token != 5 || grant.Lease != claimOfA.Lease || grant.Sent != at(1001) || grant.Rival != "b" || grant.Claim.Nonce != "a" {
		t.Fatalf("granted %+v", grant)
	}

	r := b.Renewal(grant)
	w := asks(t, r.Begin(at(2000)), Write)
	if w.Record.Heartbeat != 9 || w.Version != "2" || w.Record.Next != nil {
		t.Fatalf("renews version %s with %+v", w.Version, w.Record)
	}
	asks(t, r.Answer(at(2100), Answer{Kind: Conflict}), Read)
	w = asks(t, r.Answer(at(2200), shown(taken, "2")), Write) // a write that the store has lost since
	if w.Record.Heartbeat != 10 {
		t.Fatalf("renews with heartbeat %d after 9, which others may have seen", w.Record.Heartbeat)
	}
	renewed := asks(t, r.Answer(at(2300), Answer{Kind: Written, Version: "4"}), Done).Grant
	if renewed.Sent != at(2200) || renewed.Token != 5 || renewed.Rival != "" {
		t.Fatalf("renewed %+v", renewed)
	}
	if b.Over(at(900_000)) {
		t.Error("an election in which this process leads is over")
	}
}

// TestHeartbeatOfAWaiterCounts: the first waiter takes the place behind the holder, shows in
// time that it still waits, and leads when the holder has been silent for its lease, not before.
func TestHeartbeatOfAWaiterCounts(t *testing.T) {
	c := NewMemory().Candidate(claimOfA, 0)
	record := Record{Holder: "h", Nonce: "h", Token: 5, Incarnation: "1", LeaseMs: 3000, Heartbeat: 1}
	c.Begin(at(0))
	w := asks(t, c.Answer(at(1), shown(record, "1")), Write)
	if n := w.Record.Next; n == nil || n.ID != "a" || n.LeaseMs != 3000 || w.Record.Nonce != "h" {
		t.Fatalf("joins with %+v", w.Record)
	}
	w = asks(t, c.Answer(at(2), Answer{Kind: Written, Version: "2"}), Wait)
	if w.Until != at(1001) || w.Version != "2" {
		t.Fatalf("waits until %v, not for a third of its lease", w.Until)
	}
	asks(t, c.Answer(at(1001), Answer{Kind: Woken}), Read)
	joined := asks(t, c.Answer(at(1001), shown(c.memory.seen.Record, "2")), Write).Record
	if joined.Next.Heartbeat != 2 || joined.Heartbeat != 1 {
		t.Fatalf("touches with %+v", joined)
	}
	asks(t, c.Answer(at(1002), Answer{Kind: Written, Version: "3"}), Wait)
	joined.Heartbeat = 2 // the holder renews
	asks(t, c.Answer(at(1500), Answer{Kind: Told, Record: joined, Version: "4"}), Wait)
	asks(t, c.Answer(at(4499), Answer{Kind: Woken}), Read)
	if w = asks(t, c.Answer(at(4499), shown(joined, "4")), Write); w.Record.Nonce != "h" {
		t.Fatalf("leads 1 ms before the lease has run out: %+v", w.Record)
	}
	asks(t, c.Answer(at(4500), Answer{Kind: Conflict}), Read)
	if w = asks(t, c.Answer(at(4500), shown(joined, "4")), Write); w.Record.Nonce != "a" || w.Record.Next != nil {
		t.Fatalf("does not lead when the lease has run out: %+v", w.Record)
	}
}

// TestDeletedRecordKeepsTheLease (record-R6): without a record nobody knows whether its holder
// has stopped.
func TestDeletedRecordKeepsTheLease(t *testing.T) {
	var s Sight
	s.see(0, at(1), Record{Nonce: "h", Token: 5, LeaseMs: 3000, Heartbeat: 1}, "1")
	s.see(at(2), at(2), Record{}, "")
	if got := s.VacantAt(); got != at(3001) {
		t.Errorf("vacant at %v, not when the lease of the lost holder has run out", got)
	}
}

// TestOlderCopyTakesNoTokenBack (record-R4): a store that went back to an older record, which
// nobody holds, has forgotten tokens that were given.
func TestOlderCopyTakesNoTokenBack(t *testing.T) {
	var s Sight
	s.see(0, at(1), Record{Nonce: "h", Token: 5, LeaseMs: 3000, Heartbeat: 1}, "1")
	s.see(at(2), at(2), Record{Token: 3, Heartbeat: 9}, "2")
	if got := s.known(""); got != 5 || s.VacantAt() != at(3001) {
		t.Errorf("the highest token is %d, vacant at %v", got, s.VacantAt())
	}
}

// TestSuccessorLeadsAsSoonAsTheHolderIsGone: its own heartbeat is not in its way, but that of
// another one is, and one that was written and not yet seen has just come.
func TestSuccessorLeadsAsSoonAsTheHolderIsGone(t *testing.T) {
	for nonce, want := range map[string]move{"a": take, "b": stay} {
		next := &Next{ID: nonce, Nonce: nonce, Priority: 5, LeaseMs: 3000, Heartbeat: 1}
		var s Sight
		s.see(0, at(1), Record{Nonce: "h", Token: 5, LeaseMs: 1000, Heartbeat: 1}, "1")
		s.see(at(900), at(900), Record{Nonce: "h", Token: 5, LeaseMs: 1000, Heartbeat: 1, Next: next}, "2")
		if move, _ := s.decide(claimOfA, notAsked, at(900), at(1001)); move != want {
			t.Errorf("with %s as the successor: move %d, want %d", nonce, move, want)
		}
		s.Record.Next = &Next{ID: "c", Nonce: "c", LeaseMs: 3000, Heartbeat: 1}
		if got := s.NextGoneAt(); got != never {
			t.Errorf("c has just come, and is gone at %v", got)
		}
	}
}

// TestFailuresSlowACandidateDown: its pauses double, and when the store has not answered for a
// lease it gives up.
func TestFailuresSlowACandidateDown(t *testing.T) {
	c := NewMemory().Candidate(claimOfA, 0)
	c.Begin(at(0))
	now := at(0)
	for i, pause := range []int64{50, 100, 200, 375, 375} { // half of 100, 200, 400, 750, 750
		w := asks(t, c.Answer(now, Answer{Kind: Unanswered}), Pause)
		if w.Until != now.Add(milliseconds(pause)) {
			t.Fatalf("pause %d is %v, want %d ms", i+1, w.Until-now, pause)
		}
		asks(t, c.Answer(w.Until, Answer{Kind: Woken}), Read)
		now = w.Until
	}
	asks(t, c.Answer(at(3000), Answer{Kind: Unanswered}), Pause)
	asks(t, c.Answer(at(3001), Answer{Kind: Woken}), Read)
	if w := asks(t, c.Answer(at(3001), Answer{Kind: Unanswered}), Done); !errors.Is(w.Err, ErrUnanswered) {
		t.Fatalf("ends with %v", w.Err)
	}
}

// TestCandidateMayBeginAtAnyTime: the time without an answer counts from when it began, and a
// watch may be silent for as long as it likes. Its pauses are spread over their upper half.
func TestCandidateMayBeginAtAnyTime(t *testing.T) {
	pauses := map[time.Duration]bool{}
	for seed := range uint64(20) {
		c := NewMemory().Candidate(claimOfA, seed)
		c.Begin(at(3_600_000))
		w := asks(t, c.Answer(at(3_600_100), Answer{Kind: Unanswered}), Pause)
		pause := w.Until.Sub(at(3_600_100))
		if pause < 50*time.Millisecond || pause > 100*time.Millisecond {
			t.Fatalf("seed %d pauses for %v", seed, pause)
		}
		pauses[pause] = true
	}
	if len(pauses) < 10 {
		t.Errorf("20 candidates have only %d pauses", len(pauses))
	}
	c := NewMemory().Candidate(claimOfA, 0)
	c.Begin(at(0))
	record := Record{Holder: "h", Nonce: "h", Token: 5, LeaseMs: 60_000, Heartbeat: 1,
		Next: &Next{ID: "b", Nonce: "b", Priority: 5, LeaseMs: 60_000, Heartbeat: 1}}
	asks(t, c.Answer(at(1), shown(record, "1")), Wait)
	asks(t, c.Answer(at(30_000), Answer{Kind: Unanswered}), Pause)
}

// TestTakeThatIsRefusedGrantsNothing (record-R7).
func TestTakeThatIsRefusedGrantsNothing(t *testing.T) {
	for _, kind := range []AnswerKind{Conflict, NotYet, Unanswered} {
		c := NewMemory().Candidate(claimOfA, 0)
		c.Begin(at(0))
		asks(t, c.Answer(at(1), shown(Record{Token: 4}, "1")), Write)
		if w := c.Answer(at(2), Answer{Kind: kind, After: time.Second}); w.Kind == Done {
			t.Errorf("%v: %+v", kind, w)
		}
	}
}

// TestNomineeReportsItsWarmUp: a warm-up that failed is repeated
// for the next nomination.
func TestNomineeReportsItsWarmUp(t *testing.T) {
	for _, ok := range []bool{true, false} {
		c := NewMemory().Candidate(claimOfA, 0)
		record := Record{Holder: "h", Nonce: "h", Token: 5, Incarnation: "1", LeaseMs: 60_000, Heartbeat: 1, Wanted: "a"}
		c.Begin(at(0))
		record = asks(t, c.Answer(at(1), shown(record, "1")), Write).Record
		asks(t, c.Answer(at(1), Answer{Kind: Written, Version: "2"}), Wait)
		for n := range int64(2) {
			nominated := *record.Next
			nominated.State = StateNominated
			record.Next = &nominated
			if n == 0 || !ok { // once warm, it remains warm
				asks(t, c.Answer(at(10*n+2), Answer{Kind: Woken}), Read)
				if w := asks(t, c.Answer(at(10*n+3), shown(record, "3")), Wait); !w.Warm {
					t.Fatalf("nomination %d: it is not asked to warm up", n+1)
				}
				c.Warmed(ok)
			}
			asks(t, c.Answer(at(10*n+4), Answer{Kind: Woken}), Read)
			w := c.Answer(at(10*n+5), shown(record, "3"))
			if want := map[bool]string{true: StateReady, false: StateNotReady}[ok]; w.Kind != Write || w.Record.Next.State != want || w.Warm {
				t.Fatalf("nomination %d: wants %d with %+v, not to be %q", n+1, w.Kind, w.Record.Next, want)
			}
			record = w.Record
			asks(t, c.Answer(at(10*n+6), Answer{Kind: Written, Version: "4"}), Wait)
		}
	}
}

// TestChangeRepeatsUntilItIsWritten: on behalf of nobody, or of a claim, whose write may then
// still arrive.
func TestChangeRepeatsUntilItIsWritten(t *testing.T) {
	held := Record{Holder: "h", Nonce: "h", Token: 5, LeaseMs: 60_000, Heartbeat: 1}
	for _, nonce := range []string{"", "a"} {
		b := NewMemory()
		own := b.Candidate(claimOfA, 0).own
		c := b.Change(nonce, Asking{election.Request{ID: "x"}})
		asks(t, c.Begin(at(0)), Read)
		asks(t, c.Answer(at(1), shown(held, "1")), Write)
		if own.pending["1"] != (nonce == "a") {
			t.Fatalf("%q: what may arrive is %v", nonce, own.pending)
		}
		asks(t, c.Answer(at(2), Answer{Kind: Conflict}), Read)
		asks(t, c.Answer(at(3), shown(held, "2")), Write)
		if own.pending["1"] || own.pending["2"] != (nonce == "a") {
			t.Fatalf("%q, again: what may arrive is %v", nonce, own.pending)
		}
		if w := asks(t, c.Answer(at(4), Answer{Kind: Unanswered}), Done); !errors.Is(w.Err, ErrUnanswered) {
			t.Fatalf("%q, without an answer: %v", nonce, w.Err)
		}
		if own.pending["2"] != (nonce == "a") {
			t.Fatalf("%q, without an answer: what may arrive is %v", nonce, own.pending)
		}
	}
}

// TestWantedCandidateTakesNoTurns: of those that waited behind another one, the one that the
// holder wants takes the place at once, also from a live successor, and nobody else does.
func TestWantedCandidateTakesNoTurns(t *testing.T) {
	record := Record{Holder: "h", Nonce: "h", Token: 5, Incarnation: "1", LeaseMs: 30_000, Heartbeat: 1, Wanted: "a",
		Next: &Next{ID: "a", Nonce: "another a", LeaseMs: 2000, Heartbeat: 1}}
	free := record
	free.Next = nil
	for wanted, kind := range map[string]WantKind{"a": Write, "b": Wait} {
		c := NewMemory().Candidate(claimOfA, 12345)
		c.Begin(at(0))
		asks(t, c.Answer(at(1), shown(record, "1")), Wait) // behind another one of its name
		asks(t, c.Answer(at(2), Answer{Kind: Woken}), Read)
		free.Wanted = wanted
		asks(t, c.Answer(at(3), shown(free, "2")), kind)

		c = NewMemory().Candidate(claimOfA, 12345)
		c.Begin(at(0))
		occupied := record
		occupied.Wanted, occupied.Next = wanted, &Next{ID: "c", Nonce: "c", LeaseMs: 2000, Heartbeat: 1}
		asks(t, c.Answer(at(1), shown(occupied, "1")), kind)
	}
}

// TestReleaseLeavesNoWriteThatCanArrive (record-R5): a take without an answer may still take
// effect as long as the record has the version that it expects.
func TestReleaseLeavesNoWriteThatCanArrive(t *testing.T) {
	b := NewMemory()
	c := b.Candidate(claimOfA, 0)
	c.Begin(at(0))
	before := Record{Token: 4, Heartbeat: 7}
	asks(t, c.Answer(at(1), shown(before, "1")), Write)
	grant := election.Grant{Claim: claimOfA}
	r := b.Release(grant)
	asks(t, r.Begin(at(2)), Read)
	r.Abandon() // its answer has not come in time
	b.See(at(3), at(4), before, "1")
	if known, stale := b.Claims(); known != 1 || stale != 1 {
		t.Fatalf("%d claims are known, %d stale: the write may take effect", known, stale)
	}
	r = b.Release(grant)
	asks(t, r.Begin(at(5)), Read)
	w := asks(t, r.Answer(at(6), shown(before, "1")), Write)
	if w.Version != "1" || w.Record.Touch != 1 || w.Record.Token != 4 {
		t.Fatalf("writes %+v over version %s, not only to change the version", w.Record, w.Version)
	}
	asks(t, r.Answer(at(7), Answer{Kind: Written, Version: "2"}), Done)
	b.See(at(8), at(8), before, "2")
	if known, _ := b.Claims(); known != 0 || !b.Over(at(9)) {
		t.Errorf("%d claims are known after the release", known)
	}

	// A holder that is also the successor's predecessor: both places are left at once.
	b = NewMemory()
	b.Candidate(claimOfA, 0)
	r = b.Release(grant)
	r.own.wrote = true
	asks(t, r.Begin(at(10)), Read)
	w = asks(t, r.Answer(at(11), shown(Record{Holder: "h", Nonce: "h", Token: 5, Heartbeat: 9, LeaseMs: 1000,
		Next: &Next{ID: "a", Nonce: "a"}}, "7")), Write)
	if w.Record.Next != nil || w.Record.Nonce != "h" {
		t.Errorf("leaves its place with %+v", w.Record)
	}
}

// TestReleaseOfAClaimThatNeverWroteAsksNothing: but that of another process's claim does, and a
// claim in either place of the record is not forgotten.
func TestReleaseOfAClaimThatNeverWroteAsksNothing(t *testing.T) {
	b := NewMemory()
	b.Candidate(claimOfA, 0)
	asks(t, b.Release(election.Grant{Claim: claimOfA}).Begin(at(0)), Done)
	if known, stale := b.Claims(); known != 0 || stale != 0 {
		t.Fatalf("%d claims are known, %d stale", known, stale)
	}
	asks(t, b.Release(election.Grant{Claim: claimOfA}).Begin(at(0)), Read)

	for _, record := range []Record{
		{Holder: "a", Nonce: "a", Token: 5, LeaseMs: 3000, Heartbeat: 9},
		{Token: 5, Heartbeat: 9, Next: &Next{ID: "a", Nonce: "a", LeaseMs: 3000}},
	} {
		b := NewMemory()
		c := b.Candidate(claimOfA, 0)
		c.Begin(at(0))
		asks(t, c.Answer(at(1), shown(Record{Token: 4}, "1")), Write)
		r := b.Release(election.Grant{Claim: claimOfA})
		asks(t, r.Begin(at(2)), Read)
		r.Abandon()
		b.See(at(3), at(4), record, "2")
		if known, _ := b.Claims(); known != 1 {
			t.Errorf("forgotten, and still in %+v", record)
		}
		b.See(at(5), at(6), Record{Token: 6, Heartbeat: 10}, "3")
		if known, _ := b.Claims(); known != 0 || !b.Over(at(10_000)) {
			t.Errorf("gone from the record, and still known")
		}
	}
}

// TestElectionIsOverWhenNobodyCanHoldIt: not before the lease of the last holder, nor while a
// successor may wait.
func TestElectionIsOverWhenNobodyCanHoldIt(t *testing.T) {
	for over, record := range map[int64]Record{
		1:    {Token: 5, Heartbeat: 9},
		3001: {Holder: "h", Nonce: "h", Token: 5, LeaseMs: 3000, Heartbeat: 9},
		2001: {Token: 5, Heartbeat: 9, Next: &Next{ID: "b", Nonce: "b", LeaseMs: 2000}},
	} {
		b := NewMemory()
		seen := b.See(at(0), at(1), record, "1")
		if b.Over(at(over)-1) && over > 1 || !b.Over(at(over)) {
			t.Errorf("%+v: not over at %d ms", record, over)
		}
		if seen.Unconfirmed() != (record.Nonce != "") {
			t.Errorf("%+v: unconfirmed %v", record, seen.Unconfirmed())
		}
	}
}

// TestRequestReachesTheLeaderThatIsMeant: that of the token, or the present one; none that has
// run out.
func TestRequestReachesTheLeaderThatIsMeant(t *testing.T) {
	var s Sight
	s.see(0, at(1), Record{Holder: "h", Nonce: "h", Token: 5, LeaseMs: 3000, Heartbeat: 1}, "1")
	for token, meant := range map[election.Token]bool{0: true, 5: true, 4: false, 6: false} {
		record, write, err := Asking{election.Request{Transfer: "b", Token: token, ID: "x"}}.Edit(at(2), time.Time{}, s)
		if meant != write || meant != (err == nil) || !meant && !errors.Is(err, election.ErrNoLeader) {
			t.Fatalf("token %d: %v, %v", token, write, err)
		}
		if meant && (record.Request == nil || *record.Request != election.Request{Transfer: "b", Token: 5, ID: "x"}) {
			t.Fatalf("token %d: leaves %+v", token, record.Request)
		}
	}
	if _, write, err := (Asking{}).Edit(at(3001), time.Time{}, s); write || !errors.Is(err, election.ErrNoLeader) {
		t.Fatalf("a leader that has run out is asked: %v", err)
	}
}

// TestNominationAndItsWithdrawal: step by step, and only by the holder.
func TestNominationAndItsWithdrawal(t *testing.T) {
	see := func(next *Next, wanted string) (s Sight) {
		s.see(0, at(1), Record{Holder: "h", Nonce: "h", Token: 5, LeaseMs: 60_000, Heartbeat: 1, Next: next, Wanted: wanted}, "1")
		return s
	}
	b := func(state string) *Next { return &Next{ID: "b", Nonce: "b", LeaseMs: 2000, Heartbeat: 1, State: state} }
	edit := func(now clock.Instant, s Sight) (Record, bool, bool, error) {
		n := &Nomination{Nonce: "h", ID: "b", Until: at(5000)}
		record, write, err := n.Edit(now, time.Time{}, s)
		return record, write, n.Ready, err
	}
	record, write, ready, err := edit(at(2), see(nil, ""))
	if record.Wanted != "b" || !write || ready || err != nil {
		t.Fatalf("nobody waits yet: %+v %v %v %v", record, write, ready, err)
	}
	if _, write, _, err = edit(at(3), see(nil, "b")); write || err != nil {
		t.Fatalf("asked for already: %v %v", write, err)
	}
	if _, write, _, err = edit(at(5000), see(nil, "b")); write || !errors.Is(err, election.ErrNoCandidate) {
		t.Fatalf("it has not come: %v %v", write, err)
	}
	if record, write, ready, err = edit(at(2), see(b(""), "b")); record.Next.State != StateNominated || !write || ready || err != nil {
		t.Fatalf("it waits: %+v %v %v %v", record.Next, write, ready, err)
	}
	if record, write, _, err = edit(at(2001), see(b(""), "")); record.Wanted != "b" || !write || record.Next.State != "" || err != nil {
		t.Fatalf("it is gone: %+v %v %v", record, write, err)
	}
	if _, write, ready, err = edit(at(2), see(b(StateReady), "b")); write || !ready || err != nil {
		t.Fatalf("it is ready: %v %v %v", write, ready, err)
	}
	if _, write, ready, err = edit(at(2), see(b(StateNotReady), "b")); write || ready || err == nil {
		t.Fatalf("it could not warm up: %v %v %v", write, ready, err)
	}
	other := &Nomination{Nonce: "x", ID: "b", Until: at(5000)}
	if _, write, err = other.Edit(at(2), time.Time{}, see(b(""), "")); write || !errors.Is(err, election.ErrLost) {
		t.Fatalf("another one nominates: %v %v", write, err)
	}

	for nonce, wanted := range map[string]string{"x": "b", "h": ""} {
		if _, write, _ := (Withdrawal{nonce}).Edit(at(2), time.Time{}, see(b(StateNominated), wanted)); write {
			t.Fatalf("%q withdraws where %q is wanted", nonce, wanted)
		}
	}
	record, write, err = Withdrawal{"h"}.Edit(at(2), time.Time{}, see(b(StateNominated), "b"))
	if record.Wanted != "" || record.Next.State != "" || record.Next.ID != "b" || !write || err != nil {
		t.Fatalf("withdrawn: %+v %v %v", record, write, err)
	}
}

// TestHistoryOfOneLeadership: a withdrawn one leaves no trace, and one that has ended is closed.
func TestHistoryOfOneLeadership(t *testing.T) {
	wall := time.UnixMilli(7000)
	taken := Record{}.taken(claimOfA, 0, "1", time.UnixMilli(3000))
	if got := taken.History; len(got) != 1 || got[0].Leader != "a" || got[0].Token != taken.Token {
		t.Fatalf("after a take: %+v", got)
	}
	if got := taken.undone().History; len(got) != 0 {
		t.Errorf("after its withdrawal: %+v", got)
	}
	released := taken.released(wall, election.ReasonResigned)
	if got := released.History; len(got) != 1 || !got[0].Until.Equal(wall) || got[0].Reason != election.ReasonResigned.String() {
		t.Errorf("after its release: %+v", got)
	}
	if got := released.undone().History; len(got) != 1 {
		t.Errorf("a withdrawal took away what has ended: %+v", got)
	}
	if got := (Record{Nonce: "a"}).undone().History; len(got) != 0 { // of a program that keeps no history
		t.Errorf("out of nothing: %+v", got)
	}
}
