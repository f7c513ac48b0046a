package algo

import (
	"bytes"
	"reflect"
	"testing"
)

func TestMessagesComeBackAsTheyWereWritten(t *testing.T) {
	messages := []Message{
		{Type: PreVote, Term: 7, Round: 1 << 60, TransferTerm: 6},
		{Type: RequestVoteReply, Term: 7, Granted: true, Member: "b"},
		{Type: Heartbeat, Term: 9, Config: Config{Term: 3, Version: 8, Members: []ID{"a", "b", "c"}}},
		{Type: Alive},
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

func TestEveryTypeHasAName(t *testing.T) {
	seen := map[string]bool{}
	for m := MessageType(1); m < typeEnd; m++ {
		if name := m.String(); name == "" || name == "?" || seen[name] {
			t.Errorf("type %d is called %q", m, name)
		}
		seen[m.String()] = true
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
	f.Add(Message{Type: Heartbeat, Term: 9, Config: Config{Version: 8, Members: []ID{"a", "b"}}}.Append(nil))
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
