package dynamodb

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// FuzzDecode: whatever an item holds is a record or an error.
func FuzzDecode(f *testing.F) {
	s, err := newStore(nil, Options{Table: "t"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add("v", `{"holder":"a","token":1,"beat":1}`)
	f.Add("", "{}")
	f.Add("v", "[]")
	f.Fuzz(func(t *testing.T, version, data string) {
		r, got, err := decode(map[string]types.AttributeValue{attributeVersion: text(version), attributeRecord: text(data)})
		if err != nil {
			return
		}
		if got == "" || got != version {
			t.Errorf("version %q of %q", got, version)
		}
		item, err := s.encode("e", r, got)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := decode(item); err != nil {
			t.Errorf("what was decoded cannot be: %v", err)
		}
	})
}
