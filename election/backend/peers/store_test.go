package peers

import (
	"fmt"
	"maps"
	"math/rand"
	"reflect"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/internal/vfs"
)

var ids = []algo.ID{"a", "b"}

// changes returns random changes, and the state after each of them.
func changes(from *state, seed int64, n int) (changes, states []*state) {
	random := rand.New(rand.NewSource(seed))
	states = []*state{from.clone()}
	for i := range n {
		change := new(state).complete()
		for range random.Intn(4) {
			name := fmt.Sprintf("jobs/%d", random.Intn(20))
			if random.Intn(3) == 0 {
				change.Elections[name] = nil
				change.Floor = uint64(i + 1)
			} else {
				change.Elections[name] = &algo.State{Term: uint64(random.Intn(99) + 1), Vote: "b"}
			}
		}
		if random.Intn(9) == 0 {
			change.Births["b"] = fmt.Sprint(i)
			change.Founded = true
		}
		next := states[i].clone()
		next.apply(change)
		changes, states = append(changes, change), append(states, next)
	}
	return changes, states
}

// Whatever was saved is on disk, and whatever was being saved is there completely or
// not at all, wherever a crash falls: between two records, within one, or while a new
// file replaces the old one.
func TestChangesAreSavedWholeWhereverACrashFalls(t *testing.T) {
	compacted := 0
	for stop := 0; ; stop++ {
		disk := vfs.NewMem()
		s, st, err := openStore(disk, "dir", "a", ids, 1000, 0)
		if err != nil {
			t.Fatal(err)
		}
		s.most = 700
		left := stop
		s.fs = &vfs.Faulty{Disk: disk, Before: func(op vfs.Op) error {
			if left--; left < 0 {
				return vfs.ErrNoSpace
			}
			if op.Kind == vfs.KindRename {
				compacted++
			}
			return nil
		}}
		if err := s.compact(); err != nil { // with files that may fail
			continue
		}
		all, states := changes(st, int64(stop), 40)
		saved := 0
		for _, change := range all {
			if err := s.save(change); err != nil {
				break
			}
			saved++
		}
		for clone := range int64(8) {
			crashed := disk.CrashClone(int(clone)*100/7, clone)
			again, got, err := openStore(crashed, "dir", "a", ids, 1000, 0)
			if err != nil {
				t.Fatalf("after %d operations and %d changes: %v", stop, saved, err)
			}
			if !reflect.DeepEqual(got, states[saved]) && (saved == len(all) || !reflect.DeepEqual(got, states[saved+1])) {
				t.Fatalf("after %d operations and %d changes:\n%+v is not\n%+v", stop, saved, got, states[saved])
			}
			more := &state{Elections: map[string]*algo.State{"later": {Term: 7}}}
			if err := again.save(more); err != nil { // on top of what a crash has left
				t.Fatal(err)
			}
			_ = again.close()
			_, reread, err := openStore(crashed.CrashClone(0, clone), "dir", "a", ids, 1000, 0)
			if err != nil || reread.Elections["later"] == nil || len(reread.Elections) != len(got.Elections)+1 {
				t.Fatalf("after %d operations and %d changes, and one more: %v, %v", stop, saved, reread, err)
			}
		}
		if saved == len(all) {
			break
		}
	}
	if compacted < 10 {
		t.Errorf("the file was written again %d times: the test does not test", compacted)
	}
}

// Every byte of a file counts, including those of the last record: a member that
// votes twice because a bit flipped elects two leaders.
func TestDamagedStateIsRefused(t *testing.T) {
	for offset := int64(0); ; offset++ {
		for _, mask := range []byte{1, 0x20, 0x80} {
			disk := vfs.NewMem()
			s, st, err := openStore(disk, "dir", "a", ids, 1000, 0)
			if err != nil {
				t.Fatal(err)
			}
			all, _ := changes(st, 5, 4)
			for _, change := range all {
				if err := s.save(change); err != nil {
					t.Fatal(err)
				}
			}
			if size := s.whole + s.more; offset == size {
				return
			}
			_ = s.close()
			if err := disk.FlipByte("dir/"+stateName, offset, mask); err != nil {
				t.Fatal(err)
			}
			if _, _, err = openStore(disk, "dir", "a", ids, 1000, 0); err == nil {
				t.Fatalf("a file whose byte %d has changed was read", offset)
			}
		}
	}
}

func TestStateOfAnotherMemberIsRefused(t *testing.T) {
	disk := vfs.NewMem()
	s, _, err := openStore(disk, "dir", "a", ids, 1000, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := openStore(disk, "dir", "a", ids, 1000, 0); err == nil || !strings.Contains(err.Error(), "lock") {
		t.Errorf("opened twice: %v", err)
	}
	_ = s.close()
	if _, _, err := openStore(disk, "dir", "b", ids, 1000, 0); err == nil {
		t.Error("opened as another member")
	}
	if _, _, err := openStore(disk, "dir", "a", []algo.ID{"a", "b", "c"}, 1000, 0); err == nil {
		t.Error("opened with other members")
	}
}

// A file is read that was written before there were changes after the first record.
func TestStateOfVersionOneIsRead(t *testing.T) {
	old := newState("a", ids, 1000, 0)
	old.Version, old.Floor, old.Founded = 1, 99, true
	old.Elections["x"] = &algo.State{Term: 100, Vote: "b"}
	text, err := old.encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseState(text)
	if err != nil || got.Version != stateVersion || got.Elections["x"].Floor != 99 || got.Elections["x"].Vote != "b" {
		t.Errorf("%+v, %v", got, err)
	}
	old.Version = stateVersion + 1
	if text, err = old.encode(); err != nil {
		t.Fatal(err)
	}
	if _, err := parseState(text); err == nil {
		t.Error("a file of a later version was read")
	}
}

// The size of a file is bounded by what is known, not by how often that has changed.
func TestFileIsBoundedByWhatIsKnown(t *testing.T) {
	disk := vfs.NewMem()
	s, _, err := openStore(disk, "dir", "a", ids, 1000, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20_000 {
		change := &state{Floor: uint64(i), Elections: map[string]*algo.State{fmt.Sprint("jobs/", i): {Term: uint64(i + 1)},
			fmt.Sprint("jobs/", i-100): nil}}
		if err := s.save(change); err != nil {
			t.Fatal(err)
		}
		if size := s.whole + s.more; size > 3*logBytesMax {
			t.Fatalf("%d bytes after %d changes", size, i)
		}
	}
	if n := len(s.state.Elections); n != 100 {
		t.Errorf("%d are known: %v", n, maps.Keys(s.state.Elections))
	}
}
