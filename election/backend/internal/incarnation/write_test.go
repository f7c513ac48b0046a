package incarnation

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
)

// forgetful is a store of one record.
type forgetful struct {
	record      record.Record
	version     string
	writes      int
	incarnation string
	settled     string
	looks       int
	onLook      func() // what happens while a candidate waits
}

func (f *forgetful) Read(context.Context, string) (record.Record, string, error) {
	return f.record, f.version, nil
}

func (f *forgetful) Put(_ context.Context, _ string, r record.Record, version string) (Outcome, error) {
	outcome := Outcome{Incarnation: f.incarnation}
	if version != f.version {
		return outcome, nil
	}
	if f.settled != f.incarnation && r.Nonce != "" && r.Nonce != f.record.Nonce {
		outcome.Refused = true
		return outcome, nil
	}
	f.writes++
	f.record, f.version = r, fmt.Sprint("v", f.writes)
	outcome.Version = f.version
	return outcome, nil
}

func (f *forgetful) Settled(context.Context) (string, bool, error) {
	f.looks++
	if f.onLook != nil {
		f.onLook()
	}
	return f.incarnation, f.settled == f.incarnation, nil
}

func (f *forgetful) Settle(_ context.Context, incarnation string) error {
	if incarnation == f.incarnation {
		f.settled = incarnation
	}
	return nil
}

func holder(nonce string) record.Record {
	return record.Record{Holder: nonce, Nonce: nonce, LeaseMs: 20}
}

func TestNobodyTakesAnElectionOfAStoreThatMayHaveForgotten(t *testing.T) {
	const leaseMax = 50 * time.Millisecond
	s, w := &forgetful{incarnation: "1", settled: "1"}, NewWatch(leaseMax)
	held, err := w.Write(t.Context(), s, "e", holder("a"), "")
	if err != nil {
		t.Fatal(err)
	}
	s.incarnation = "2"
	renewed, err := w.Write(t.Context(), s, "e", holder("a"), held)
	if err != nil {
		t.Fatalf("a renewal: %v", err)
	}
	released, err := w.Write(t.Context(), s, "e", record.Record{Token: 1}, renewed)
	if err != nil {
		t.Fatalf("a release: %v", err)
	}
	began := election.Now()
	if _, err := w.Write(t.Context(), s, "e", holder("b"), released); !errors.Is(err, record.ErrConflict) {
		t.Fatalf("a take: %v", err)
	}
	if s.settled != "2" || s.version == released {
		t.Errorf("settled %q, version %q", s.settled, s.version)
	}
	if waited := election.Now().Sub(began); waited < leaseMax/2 {
		t.Errorf("waited %v of %v", waited, leaseMax)
	}
	if _, err := w.Write(t.Context(), s, "e", holder("b"), s.version); err != nil {
		t.Errorf("a take of what is settled: %v", err)
	}
	if _, err := w.Write(t.Context(), s, "e", holder("c"), released); !errors.Is(err, record.ErrConflict) {
		t.Errorf("an old version: %v", err)
	}
}

// waiting returns a watch that looks often, and a store that has forgotten.
func waiting(leaseMax time.Duration) (*Watch, *forgetful) {
	w := NewWatch(leaseMax)
	w.pause = time.Millisecond
	return w, &forgetful{incarnation: "2", settled: "1"}
}

func TestIncarnationThatChangesWhileWaitingIsNotSettled(t *testing.T) {
	w, s := waiting(time.Hour)
	s.onLook = func() { s.incarnation = "3" }
	if _, err := w.Write(t.Context(), s, "e", holder("b"), ""); !errors.Is(err, record.ErrConflict) {
		t.Fatal(err)
	}
	if s.settled != "1" || s.version == "" {
		t.Errorf("settled %q, version %q", s.settled, s.version)
	}
}

func TestWhatAnotherCandidateHasSettledIsNotWaitedFor(t *testing.T) {
	w, s := waiting(time.Hour)
	s.onLook = func() {
		if s.looks == 3 {
			s.settled = "2"
		}
	}
	if _, err := w.Write(t.Context(), s, "e", holder("b"), ""); !errors.Is(err, record.ErrConflict) {
		t.Fatal(err)
	}
	if s.looks != 3 || s.version == "" {
		t.Errorf("%d looks, version %q", s.looks, s.version)
	}
}

func TestWaitingEndsWithItsContext(t *testing.T) {
	w, s := waiting(time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	s.onLook = cancel
	if _, err := w.Write(ctx, s, "e", holder("b"), ""); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if s.version != "" {
		t.Error("something was written")
	}
}
