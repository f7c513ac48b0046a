package peers

import (
	"bufio"
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/internal/vfs"
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
	f.Add([]byte{itemNote, 0, 1, 'a', 2, '{', '}'})
	f.Fuzz(func(t *testing.T, body []byte) {
		var d decoder
		items, err := d.decode(body)
		if err == nil && len(items) == 0 && len(body) > 0 {
			t.Fatal("bytes without an item")
		}
		if len(items) > len(body) {
			t.Fatalf("%d items of %d bytes", len(items), len(body))
		}
	})
}

// The state is on disk whole, as it was or as it is, wherever a crash falls.
func TestStateIsNeverHalfWritten(t *testing.T) {
	ids := []algo.ID{"a", "b"}
	for stop := 0; ; stop++ {
		disk := vfs.NewMem()
		s, st, err := openStore(disk, "dir", "a", ids, 0)
		if err != nil {
			t.Fatal(err)
		}
		_ = s.close()
		left := stop
		s.fs = &vfs.Faulty{Disk: disk, Before: func(op vfs.Op) error {
			if left--; left < 0 {
				return vfs.ErrNoSpace
			}
			return nil
		}}
		st.Elections["x"] = algo.State{Term: 3, Vote: "b"}
		saved := s.save(st)
		again, got, err := openStore(disk.CrashClone(stop*37%101, int64(stop)), "dir", "a", ids, 0)
		if err != nil {
			t.Fatalf("after %d operations: %v", stop, err)
		}
		_ = again.close()
		if got.Birth != st.Birth {
			t.Fatalf("after %d operations the member is another one", stop)
		}
		if saved == nil {
			if got.Elections["x"].Vote != "b" {
				t.Fatal("what was saved is gone")
			}
			return
		}
	}
}

func TestDamagedOrForeignStateIsRefused(t *testing.T) {
	ids := []algo.ID{"a", "b"}
	disk := vfs.NewMem()
	s, _, err := openStore(disk, "dir", "a", ids, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := openStore(disk, "dir", "a", ids, 0); err == nil || !strings.Contains(err.Error(), "lock") {
		t.Errorf("opened twice: %v", err)
	}
	_ = s.close()
	if _, _, err := openStore(disk, "dir", "b", ids, 0); err == nil {
		t.Error("opened as another member")
	}
	if _, _, err := openStore(disk, "dir", "a", []algo.ID{"a", "b", "c"}, 0); err == nil {
		t.Error("opened with other members")
	}
	if err := disk.FlipByte("dir/"+stateName, 9, 1); err != nil {
		t.Fatal(err)
	}
	if _, _, err := openStore(disk, "dir", "a", ids, 0); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("a damaged state was read: %v", err)
	}
}
