package storetest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
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
