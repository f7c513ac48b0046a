package storetest

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// WithoutLastGrant returns the JSON of a record as it is in a copy that lacks only the last
// grant and what was written after it: nobody holds the record, its token is one less, and
// its incarnation is the same. A record without a token is returned unchanged, and so is
// "", which means no record.
func WithoutLastGrant(t testing.TB, text string) string {
	t.Helper()
	if text == "" {
		return ""
	}
	var r record.Record
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("record %q: %v", text, err)
	}
	if r.Token == 0 {
		return text
	}
	return marshal(t, record.Record{Token: r.Token - 1, Incarnation: r.Incarnation, Heartbeat: r.Heartbeat, Next: r.Next,
		History: r.History[:max(0, len(r.History)-1)]})
}

// OfAFastClock returns the JSON of a record that has no holder any more and was written by
// a host whose clock is an hour fast. The next tokens must grow from the one in this
// record. Without it, the candidates' own clocks would hide a token that does not grow.
func OfAFastClock(t testing.TB) string {
	t.Helper()
	return marshal(t, record.Record{Token: election.Token(time.Now().Add(time.Hour).UnixMilli()), Heartbeat: 1})
}

func marshal(t testing.TB, r record.Record) string {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Forget lets candidate "a" lead on one backend, makes the store forget that grant, and
// lets candidate "b" lead on the other backend. b must lead no sooner than the end of the
// forgotten lease, and with a higher token. remember is called before the grant, to make a
// copy that forget goes back to.
func Forget(t *testing.T, a, b election.Backend, leaseMax time.Duration, remember, forget func()) {
	t.Helper()
	if err := a.Release(awaittest.Within(t), Acquire(t, a, "a", leaseMax)); err != nil {
		t.Fatal(err)
	}
	remember()
	held := Acquire(t, a, "a", leaseMax)
	forget()
	next := NextAfter(t, held, b, leaseMax)
	if _, err := a.Renew(awaittest.Within(t), held); !errors.Is(err, election.ErrLost) {
		t.Errorf("the renewal of what was forgotten: %v", err)
	}
	// The incarnation is adopted now: the next candidate does not wait.
	if err := b.Release(awaittest.Within(t), next); err != nil {
		t.Fatal(err)
	}
	began := clock.Now()
	Acquire(t, a, "c", leaseMax)
	if took := clock.Now().Sub(began); took > leaseMax/2 {
		t.Errorf("elected after %v, though nothing was forgotten since", took)
	}
}

// NextAfter lets candidate "b" lead on a backend whose store has forgotten a grant.
func NextAfter(t *testing.T, held election.Grant, b election.Backend, leaseMax time.Duration) election.Grant {
	t.Helper()
	next := Acquire(t, b, "b", leaseMax)
	if now, until := clock.Now(), held.Sent.Add(held.Lease); now < until {
		t.Errorf("elected %v before the lease that was forgotten had run out", until.Sub(now))
	}
	if next.Token <= held.Token {
		t.Errorf("token %d after %d", next.Token, held.Token)
	}
	return next
}
