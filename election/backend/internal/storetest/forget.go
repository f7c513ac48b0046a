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

// WithoutLastGrant returns the JSON of a record as a copy has it that lacks the last
// grant alone, and all that was written since: nobody holds it, its token is one
// less, and its incarnation is the same. A record without a token stays as it is,
// and so does none, "".
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

// OfAFastClock returns the JSON of a record that nobody holds any more, and that a host
// left whose clock is an hour fast. Tokens of others then grow by what is in the
// record: without it their own clocks would hide a token that does not.
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

// Forget has candidate "a" lead by one backend, the store forget that grant, and
// candidate "b" lead by the other: no sooner than the forgotten lease has ended, and
// with a higher token. Remember is called before the grant, for a copy to go back to.
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
	// Adopted now: the next one does not wait.
	if err := b.Release(awaittest.Within(t), next); err != nil {
		t.Fatal(err)
	}
	began := clock.Now()
	Acquire(t, a, "c", leaseMax)
	if took := clock.Now().Sub(began); took > leaseMax/2 {
		t.Errorf("elected after %v, though nothing was forgotten since", took)
	}
}

// NextAfter has candidate "b" lead by a backend whose store has forgotten a grant.
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
