package incarnation

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election/record"
)

// forgetful is a store of one record.
type forgetful struct {
	record      record.Record
	version     string
	writes      int
	incarnation string
	adopted     string
	marks       int    // the number of marks made so far
	mark        string // while nothing is adopted; empty before it is announced
}

// loseAll loses everything, as a flush does: the incarnation stays.
func (f *forgetful) loseAll() { f.record, f.version, f.adopted, f.mark = record.Record{}, "", "", "" }

func (f *forgetful) Read(context.Context, string) (record.Record, string, error) {
	return f.record, f.version, nil
}

func (f *forgetful) Put(_ context.Context, _ string, r record.Record, version string) (Outcome, error) {
	outcome := Outcome{Incarnation: f.incarnation}
	if version != f.version {
		return outcome, nil
	}
	takes := r.Nonce != "" && r.Nonce != f.record.Nonce
	if takes && (f.adopted != f.incarnation || r.Incarnation != f.incarnation) {
		outcome.Refused = true
		if f.adopted == "" && f.mark == "" {
			f.marks++
			f.mark = fmt.Sprint("m", f.marks)
		}
		outcome.Blank = f.mark
		return outcome, nil
	}
	f.writes++
	f.record, f.version = r, fmt.Sprint("v", f.writes)
	outcome.Version = f.version
	return outcome, nil
}

func (f *forgetful) Adopt(_ context.Context, refusal Outcome) error {
	if refusal.Incarnation == f.incarnation && refusal.Blank == f.mark {
		f.adopted, f.mark = f.incarnation, ""
	}
	return nil
}

// holder returns a record that names a holder, made under an incarnation.
func holder(nonce, incarnation string) record.Record {
	return record.Record{Holder: nonce, Nonce: nonce, LeaseMs: 20, Incarnation: incarnation}
}

// try writes once, and returns for how long the write is put off: -1 for not at all.
func try(t *testing.T, w *Watch, s *forgetful, r record.Record, version string) (time.Duration, string, error) {
	t.Helper()
	after, err := w.Write(t.Context(), s, "e", r, version)
	var notYet *record.NotYetError
	if errors.As(err, &notYet) {
		return notYet.After, "", nil
	}
	return -1, after, err
}

// on returns a watch, and the clock that it uses, which the test advances.
func on(leaseMax time.Duration) (*Watch, *clock.Instant) {
	w, now := NewWatch(leaseMax), new(clock.Instant)
	w.now = func() clock.Instant { return *now }
	return w, now
}

func TestNobodyTakesAnElectionOfAStoreThatMayHaveForgotten(t *testing.T) {
	const leaseMax = 1500 * time.Millisecond
	s := &forgetful{incarnation: "1", adopted: "1"}
	w, now := on(leaseMax)
	_, held, err := try(t, w, s, holder("a", "1"), "")
	if err != nil {
		t.Fatal(err)
	}
	s.incarnation = "2"
	_, renewed, err := try(t, w, s, holder("a", "1"), held)
	if err != nil || renewed == "" {
		t.Fatalf("a renewal: %v", err)
	}
	_, released, err := try(t, w, s, record.Record{Token: 1}, renewed)
	if err != nil || released == "" {
		t.Fatalf("a release: %v", err)
	}
	for _, want := range []time.Duration{time.Second, 500 * time.Millisecond} {
		if put, _, err := try(t, w, s, holder("b", "2"), released); put != want || err != nil {
			t.Fatalf("a take is put off for %v, expected %v: %v", put, want, err)
		}
		if s.adopted != "1" || s.version != released {
			t.Errorf("adopted %q, version %q", s.adopted, s.version)
		}
		*now = now.Add(want)
	}
	if _, _, err := try(t, w, s, holder("b", "2"), released); !errors.Is(err, record.ErrConflict) {
		t.Fatalf("the take that adopts: %v", err)
	}
	if s.adopted != "2" || s.version == released {
		t.Errorf("adopted %q, version %q", s.adopted, s.version)
	}
	if _, taken, err := try(t, w, s, holder("b", "2"), s.version); taken == "" || err != nil {
		t.Errorf("a take of what is adopted: %v", err)
	}
	if _, _, err := try(t, w, s, holder("c", "2"), released); !errors.Is(err, record.ErrConflict) {
		t.Errorf("an old version: %v", err)
	}
}

func TestIncarnationThatChangesWhileWaitingIsWaitedForAgain(t *testing.T) {
	s := &forgetful{incarnation: "2", adopted: "1"}
	w, now := on(time.Second)
	if put, _, err := try(t, w, s, holder("b", "2"), ""); put != time.Second || err != nil {
		t.Fatalf("put off for %v: %v", put, err)
	}
	*now = now.Add(time.Second)
	s.incarnation = "3"
	if put, _, err := try(t, w, s, holder("b", "3"), ""); put != time.Second || err != nil || s.adopted != "1" {
		t.Errorf("put off for %v, adopted %q: %v", put, s.adopted, err)
	}
}

func TestWhatAnotherCandidateHasAdoptedIsNotWaitedFor(t *testing.T) {
	s := &forgetful{incarnation: "2", adopted: "1"}
	w, _ := on(time.Hour)
	if put, _, err := try(t, w, s, holder("b", "2"), ""); put != time.Second || err != nil {
		t.Fatalf("put off for %v: %v", put, err)
	}
	s.adopted = "2"
	if _, taken, err := try(t, w, s, holder("b", "2"), ""); taken == "" || err != nil {
		t.Errorf("not taken: %v", err)
	}
}

// TestStoreThatHasLostAllIsWatchedFromThenOn: together with what was adopted, the store
// loses grants of the same incarnation that a candidate of another election never saw,
// however long it has used the store.
func TestStoreThatHasLostAllIsWatchedFromThenOn(t *testing.T) {
	const leaseMax = 1500 * time.Millisecond
	s := &forgetful{incarnation: "1", adopted: "1"}
	w, now := on(leaseMax)
	for lost := range 2 {
		*now = now.Add(time.Hour)
		if put, held, err := try(t, w, s, holder(fmt.Sprint("a", lost), "1"), s.version); put != -1 || held == "" || err != nil {
			t.Fatalf("a take of what is adopted is put off for %v: %v", put, err)
		}
		s.loseAll()
		if put, _, err := try(t, w, s, holder("b", "1"), ""); put != time.Second || err != nil {
			t.Fatalf("a take is put off for %v: %v", put, err)
		}
		*now = now.Add(time.Second)
		s.loseAll()
		for _, want := range []time.Duration{time.Second, 500 * time.Millisecond} {
			if put, _, err := try(t, w, s, holder("b", "1"), ""); put != want || err != nil || s.adopted != "" {
				t.Fatalf("a take is put off for %v, expected %v, adopted %q: %v", put, want, s.adopted, err)
			}
			*now = now.Add(want)
		}
		if _, _, err := try(t, w, s, holder("b", "1"), ""); !errors.Is(err, record.ErrConflict) || s.adopted != "1" {
			t.Fatalf("the take that adopts: %v, adopted %q", err, s.adopted)
		}
	}
}

// TestRecordOfAnotherIncarnationTakesNothing: its token was chosen under the previous
// incarnation, even if this one was adopted in the meantime, and may be one that was forgotten.
func TestRecordOfAnotherIncarnationTakesNothing(t *testing.T) {
	s := &forgetful{incarnation: "2", adopted: "2"}
	w, _ := on(time.Second)
	if put, _, err := try(t, w, s, holder("b", "1"), ""); put != 0 || err != nil || s.version != "" {
		t.Errorf("put off for %v, version %q: %v", put, s.version, err)
	}
	if w.Incarnation() != "2" {
		t.Errorf("seen last %q", w.Incarnation())
	}
}
