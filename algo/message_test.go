package algo

import (
	"bytes"
	"reflect"
	"testing"
)

func TestMessagesComeBackAsTheyWereWritten(t *testing.T) {
	messages := []Message{
		{Word: AskFirst, Term: 7, Round: 1 << 60, Permit: 6},
		{Word: AskReply, Term: 7, Yes: true, Member: "b"},
		{Word: Beat, Term: 9, Config: Config{Term: 3, Version: 8, Members: []ID{"a", "b", "c"}}},
		{Word: Alive},
	}
	var b []byte
	for _, m := range messages {
		b = m.Append(b)
	}
	for _, want := range messages {
		var got Message
		var err error
		if got, b, err = DecodeMessage(b); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, %v, want %+v", got, err, want)
		}
	}
	if len(b) != 0 {
		t.Fatalf("%d bytes are left", len(b))
	}
}

func TestEveryWordHasAName(t *testing.T) {
	seen := map[string]bool{}
	for w := Word(1); w < wordEnd; w++ {
		if name := w.String(); name == "" || name == "?" || seen[name] {
			t.Errorf("word %d is called %q", w, name)
		}
		seen[w.String()] = true
	}
}

func TestIDs(t *testing.T) {
	for _, id := range []ID{"a", "host-7.example", "ä"} {
		if err := ValidateID(id); err != nil {
			t.Error(err)
		}
	}
	for _, id := range []ID{"", "a b", "a@b", "a,b", "h:1", "a\x00"} {
		if ValidateID(id) == nil {
			t.Errorf("%q is accepted", id)
		}
	}
}

func FuzzDecodeMessage(f *testing.F) {
	f.Add(Message{Word: Beat, Term: 9, Config: Config{Version: 8, Members: []ID{"a", "b"}}}.Append(nil))
	f.Add([]byte{1, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, rest, err := DecodeMessage(b)
		if err != nil {
			return
		}
		again, _, err := DecodeMessage(m.Append(nil))
		if err != nil || !reflect.DeepEqual(again, m) || !bytes.HasSuffix(b, rest) {
			t.Fatalf("%+v became %+v, %v", m, again, err)
		}
	})
}
