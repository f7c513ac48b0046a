package s3

import (
	"encoding/json"
	"testing"

	"github.com/conclave-project/conclave/election/record"
)

// FuzzDecode: whatever an object holds is a record or an error.
func FuzzDecode(f *testing.F) {
	good, err := json.Marshal(content{"n", &record.Record{Holder: "a", Token: 1, Next: &record.Next{ID: "b"}}})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{string(good), "", "{}", `{"nonce":"n","record":null}`, `{"nonce":1}`, "[]", "\xff"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := decode(data)
		if err != nil {
			return
		}
		again, err := json.Marshal(content{"n", &r})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decode(again); err != nil {
			t.Errorf("what was decoded cannot be: %v", err)
		}
	})
}
