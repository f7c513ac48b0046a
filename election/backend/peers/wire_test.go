package peers

import (
	"bufio"
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/algo"
)

func TestItemsComeBackAsTheyWereWritten(t *testing.T) {
	w := writer{numbers: make(map[string]uint64)}
	var d decoder
	for round := range 2 { // the second time by number
		w.message("billing/nightly", algo.Message{Type: algo.Heartbeat, Term: 7, Round: 99})
		w.json(itemSaid, "x", []byte(`{"leader":"me","token":7}`))
		w.json(itemNote, "billing/nightly", []byte(`{"kind":"warm","nonce":"00"}`))
		body, err := readFrame(bytes.NewReader(w.take()), frameBytesMax)
		if err != nil {
			t.Fatal(err)
		}
		items, err := d.decode(body)
		if err != nil {
			t.Fatal(err)
		}
		want := []item{
			{kind: itemMessage, election: "billing/nightly", message: algo.Message{Type: algo.Heartbeat, Term: 7, Round: 99}},
			{kind: itemSaid, election: "x", said: &said{Leader: "me", Token: 7}},
			{kind: itemNote, election: "billing/nightly", note: &note{Kind: noteWarm, Nonce: "00"}},
		}
		if !reflect.DeepEqual(items, want) {
			t.Fatalf("round %d: %+v", round, items)
		}
	}
	if len(d.names) != 2 {
		t.Errorf("names %q", d.names)
	}
}

func TestLengthsAreCheckedBeforeMemoryIsTaken(t *testing.T) {
	if _, err := readFrame(strings.NewReader("\xff\xff\xff\xff"), frameBytesMax); err == nil {
		t.Error("a frame of 4 GiB is read")
	}
	if err := readJSON(bufio.NewReader(strings.NewReader("\x00\x40\x00\x00")), new(hello)); err == nil {
		t.Error("a hello of 4 MiB is read")
	}
}

// What has been said in a moment may be more than a frame.
func TestMuchIsSaidInManyFrames(t *testing.T) {
	w := writer{numbers: make(map[string]uint64)}
	const messages = 50_000
	for i := range messages {
		w.message(fmt.Sprintf("election/%d", i), algo.Message{Type: algo.Heartbeat, Term: 7})
	}
	var d decoder
	items := 0
	frames := w.frames()
	for _, frame := range frames {
		body, err := readFrame(bytes.NewReader(frame), 2*frameBytesAim)
		if err != nil {
			t.Fatal(err)
		}
		some, err := d.decode(body)
		if err != nil {
			t.Fatal(err)
		}
		items += len(some)
	}
	if items != messages || len(frames) < 4 || w.frames() != nil {
		t.Errorf("%d items in %d frames", items, len(frames))
	}
}

func FuzzDecode(f *testing.F) {
	w := writer{numbers: make(map[string]uint64)}
	w.message("a", algo.Message{Type: algo.Heartbeat, Term: 7})
	w.json(itemSaid, "b", []byte(`{"line":[{"id":"x","nonce":"0"}]}`))
	f.Add(w.take()[4:])
	w.renumber(2)
	w.message("b", algo.Message{Type: algo.Heartbeat, Term: 8})
	f.Add(w.take()[4:])
	f.Add([]byte{itemNote, 0, 1, 'a', 2, '{', '}'})
	f.Fuzz(func(t *testing.T, body []byte) {
		var d decoder
		items, err := d.decode(body)
		if err == nil && len(items) == 0 && strings.Trim(string(body), string(rune(itemRenumber))) != "" {
			t.Fatal("bytes without an item")
		}
		if len(items) > len(body) {
			t.Fatalf("%d items of %d bytes", len(items), len(body))
		}
	})
}

// Names come and go without end; numbers begin again before there are too many, and
// when elections were forgotten.
func TestNumbersOfElectionsBeginAgain(t *testing.T) {
	w := writer{numbers: make(map[string]uint64)}
	var d decoder
	for i := range 2*electionsMax + 5 {
		name := fmt.Sprintf("jobs/%d", i)
		w.message(name, algo.Message{Type: algo.Heartbeat, Term: uint64(i + 1)})
		if i%1000 == 0 && i%3000 != 0 {
			w.renumber(500)
		}
		items, err := d.decode(w.take()[4:])
		if err != nil || len(items) != 1 || items[0].election != name || items[0].message.Term != uint64(i+1) {
			t.Fatalf("%d: %+v, %v", i, items, err)
		}
		if len(d.names) != len(w.numbers) {
			t.Fatalf("%d: %d names for %d numbers", i, len(d.names), len(w.numbers))
		}
	}
}

func TestNumbersAreNeverTooMany(t *testing.T) {
	w := writer{numbers: make(map[string]uint64)}
	var d decoder
	for i := range 2*electionsMax + 5 {
		w.message(fmt.Sprintf("jobs/%d", i), algo.Message{Type: algo.Heartbeat})
	}
	for _, frame := range w.frames() {
		if _, err := d.decode(frame[4:]); err != nil {
			t.Fatal(err)
		}
	}
}
