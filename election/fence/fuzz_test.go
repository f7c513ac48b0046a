package fence

import (
	"bytes"
	"context"
	"maps"
	"testing"

	"github.com/conclave-project/conclave/election"
)

func FuzzDecodeFile(f *testing.F) {
	for _, c := range []Content{{Version: 1, Token: 1}, {Data: []byte("data\n"), Version: 12, Token: 1<<64 - 1}} {
		f.Add(encodeFile(c))
	}
	f.Add([]byte("conclave file 1 version=1 token=1 bytes=-1 crc32c=00000000\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := decodeFile(text)
		if err != nil {
			return
		}
		again, err := decodeFile(encodeFile(c))
		if err != nil || !bytes.Equal(again.Data, c.Data) || again.Version != c.Version || again.Token != c.Token {
			t.Errorf("%q was read as %+v, and then as %+v, %v", text, c, again, err)
		}
	})
}

func FuzzDecodeBook(f *testing.F) {
	f.Add(encodeTokens(nil))
	f.Add(encodeTokens(map[string]election.Token{"orders": 7, "with \"quotes\"\n": 1<<64 - 1, "": 1}))
	f.Fuzz(func(t *testing.T, text []byte) {
		tokens, err := decodeTokens(text)
		if err != nil {
			return
		}
		again, err := decodeTokens(encodeTokens(tokens))
		if err != nil || !maps.Equal(again, tokens) {
			t.Errorf("%q was read as %v, and then as %v, %v", text, tokens, again, err)
		}
	})
}

// oneObject is a store with one object.
type oneObject []byte

func (o *oneObject) Get(context.Context, string) ([]byte, string, error) { return *o, "etag", nil }

func (o *oneObject) Put(_ context.Context, _ string, data []byte, _ string) error {
	*o = data
	return nil
}

// Whatever an object holds, what is written into it can be read again.
func FuzzObject(f *testing.F) {
	f.Add([]byte("conclave object 1 token=7 write=8c1f\ndata"), []byte("new"))
	f.Add([]byte("conclave object 1 token=7 write="), []byte("\n"))
	f.Add([]byte("data of before"), []byte("conclave object 1 token=9 write=x\n"))
	f.Fuzz(func(t *testing.T, old, data []byte) {
		store := oneObject(old)
		const highest = election.Token(1<<64 - 1)
		err := UpdateObject(t.Context(), &store, "k", highest, func([]byte) ([]byte, error) { return data, nil })
		if err != nil {
			return // not a line of a fence
		}
		c, err := ReadObject(t.Context(), &store, "k")
		if err != nil || c.Token != highest || !bytes.Equal(c.Data, data) {
			t.Errorf("wrote %q over %q, read %+v, %v", data, old, c, err)
		}
	})
}
