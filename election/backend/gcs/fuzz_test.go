package gcs

import (
	"encoding/json"
	"testing"

	"github.com/conclave-project/conclave/election/record"
)

// FuzzDecode: whatever an object holds is a record or an error.
func FuzzDecode(f *testing.F) {
	good, err := json.Marshal(content{&record.Record{Holder: "a", Token: 1, Next: &record.Next{ID: "b"}}})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{string(good), "", "{}", `{"record":null}`, `{"record":1}`, "[]", "\xff"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := decode(data)
		if err != nil {
			return
		}
		again, err := json.Marshal(content{&r})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decode(again); err != nil {
			t.Errorf("what was decoded cannot be: %v", err)
		}
	})
}

// FuzzStatusError: whatever an unsuccessful answer contains becomes an error of one line.
func FuzzStatusError(f *testing.F) {
	for _, seed := range []string{"", "Not Found", `{"error":{"message":"m","errors":[{"reason":"r"}]}}`, `{"error":{"errors":[]}}`, "a\nb", "\xff"} {
		f.Add(412, seed)
	}
	f.Fuzz(func(t *testing.T, status int, body string) {
		err := newStatusError(status, []byte(body))
		if text := err.Error(); text == "" || isRefused(err) && isLimited(err) {
			t.Errorf("%d %q: %q", status, body, text)
		}
	})
}
