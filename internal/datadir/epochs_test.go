package datadir

import (
	"errors"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// If both epoch files are written at once, the promise is written first: a crash between them
// leaves a directory that is not refused, with epochs that have not fallen.
func TestCrashBetweenTheEpochFilesIsNoLostPromise(t *testing.T) {
	const before, after = uint32(3), uint32(7)
	noted := func(s *Store) error { // of a history without epoch files
		_, err := s.LoadEpochs(zk.MakeZxid(before, 1))
		return err
	}
	raised := func(s *Store) error { return errors.Join(noted(s), s.RaiseEpochs(after)) }
	for what, c := range map[string]struct {
		write func(*Store) error
		ends  uint32
	}{"made": {noted, before}, "raised": {raised, after}} {
		for fail := 1; ; fail++ {
			disk, changes, opened := vfs.NewMem(), 0, false
			must(t, open(t, disk).Close())
			s := open(t, &vfs.Faulty{Disk: disk, Before: func(op vfs.Op) error {
				if opened && op.Changes() {
					changes++
				}
				if changes >= fail {
					return errors.New("no power")
				}
				return nil
			}})
			opened = true
			failed := c.write(s) != nil
			for _, keep := range []int{0, 100} {
				crashed := open(t, disk.CrashClone(keep, int64(fail)))
				accepted, _, err := crashed.readEpoch(acceptedName)
				must(t, err)
				epochs, err := crashed.LoadEpochs(zk.MakeZxid(before, 1))
				if err != nil || epochs.Accepted < epochs.Current || epochs.Current < before {
					t.Fatalf("%s, operation %d, %d %% kept: %+v, %v", what, fail, keep, epochs, err)
				}
				if !failed && accepted != c.ends {
					t.Errorf("%s: %d is promised on the disk", what, accepted)
				}
			}
			if !failed {
				break
			}
		}
	}
}

func TestEpochFilesAtStart(t *testing.T) {
	for _, c := range []struct {
		name              string
		accepted, current string // "" = missing
		temp              string
		last              zk.Zxid
		want              Epochs
		refused           bool
	}{
		{name: "none", last: 0x300000005, want: Epochs{3, 3}},
		{name: "usual", accepted: "4", current: "3", last: 0x300000005, want: Epochs{4, 3}},
		{name: "with a newline", accepted: "4\n", current: "3\n", last: 0x200000005, want: Epochs{4, 3}},
		{name: "crash before the note", accepted: "4", current: "3", last: 0x400000001, want: Epochs{4, 4}},
		{name: "crash within the note, ZOOKEEPER-4269", accepted: "5", current: "3", temp: "5", last: 0x400000001, want: Epochs{5, 4}},
		{name: "temporary file and no promise", current: "3", temp: "4", last: 0x400000001, want: Epochs{4, 4}},
		{name: "epoch never promised", accepted: "3", current: "3", last: 0x400000001, refused: true},
		{name: "temporary file of an earlier epoch", accepted: "3", current: "2", temp: "3", last: 0x400000001, refused: true},
		{name: "more than an epoch can be", accepted: "4294967300", current: "4294967299", last: 0x300000001, refused: true},
		{name: "less than an epoch can be", accepted: "4", current: "-3", last: 0x300000001, refused: true},
		{name: "torn temporary file", accepted: "3", current: "3", temp: "x", last: 0x400000001, refused: true},
		{name: "promise lost", accepted: "3", current: "4", last: 0x300000001, refused: true},
		{name: "no number", accepted: "three", current: "3", last: 0x300000001, refused: true},
		{name: "empty", accepted: "", current: " ", last: 0x300000001, refused: true},
		{name: "not an epoch", accepted: "4294967296", current: "3", last: 0x300000001, refused: true},
	} {
		disk := vfs.NewMem()
		s := open(t, disk)
		for file, content := range map[string]string{"acceptedEpoch": c.accepted, "currentEpoch": c.current, "currentEpoch.tmp": c.temp} {
			if content != "" {
				must(t, vfs.ReplaceFile(disk, "data/version-2/"+file, "data/version-2/t", []byte(content)))
			}
		}
		got, err := s.LoadEpochs(c.last)
		if (err != nil) != c.refused || got != c.want {
			t.Errorf("%s: %+v %v", c.name, got, err)
		}
		if c.refused {
			continue
		}
		must(t, s.Close())
		again, err := open(t, disk.CrashClone(0, 1)).LoadEpochs(c.last)
		if err != nil || again != got {
			t.Errorf("%s, second start: %+v %v", c.name, again, err)
		}
	}
}

// TestHistoryThatHasComeIsNotedOrRefused: of the operations that note it none may fail unnoticed.
// A server whose mark stays would not vote after its next start.
func TestHistoryThatHasComeIsNotedOrRefused(t *testing.T) {
	for fail := 1; ; fail++ {
		changes, armed := 0, false
		s := open(t, &vfs.Faulty{Disk: vfs.NewMem(), Before: func(op vfs.Op) error {
			if armed && op.Changes() {
				if changes++; changes == fail {
					return errors.New("no disk")
				}
			}
			return nil
		}})
		_, err := s.LoadEpochs(zk.MakeZxid(3, 1))
		must(t, errors.Join(err, s.SetAccepted(4), s.beginRejoining()))
		armed = true
		err = s.SetCurrent(4)
		if changes < fail {
			must(t, err)
			break
		}
		if err == nil || s.Epochs().Current != 3 {
			t.Errorf("operation %d fails, and SetCurrent returned %v, current %d", fail, err, s.Epochs().Current)
		}
	}
}

func TestEpochsNeverFall(t *testing.T) {
	s := open(t, vfs.NewMem())
	_, err := s.LoadEpochs(0)
	must(t, err)
	must(t, s.SetAccepted(2))
	must(t, s.SetCurrent(2))
	if s.SetAccepted(1) == nil || s.SetCurrent(1) == nil || s.SetCurrent(3) == nil {
		t.Error("an epoch fell, or ran ahead of its promise")
	}
	if content, _ := vfs.ReadFile(s.fs, "data/version-2/currentEpoch", 99); string(content) != "2\ncrc32 1ad5be0d\n" {
		t.Errorf("content %q", content)
	}
}

// A later version may say more in these files.
func TestEpochFileOfALaterVersionIsRead(t *testing.T) {
	disk := vfs.NewMem()
	s := open(t, disk)
	must(t, vfs.ReplaceFile(disk, "data/version-2/"+acceptedName, "data/version-2/t", []byte("7\n"+epochCheck(7)+"\nmore of it\n")))
	if epoch, found, err := s.readEpoch(acceptedName); err != nil || !found || epoch != 7 {
		t.Errorf("%d, %v, %v", epoch, found, err)
	}
}

// A server whose log is old would lead with an epoch that no leader had, and acknowledged
// transactions would be lost: one bit turns "1" into "9".
func TestChangedBitInAnEpochFileIsFound(t *testing.T) {
	const dir = "data/version-2/"
	disk := vfs.NewMem()
	s := open(t, disk)
	_, err := s.LoadEpochs(0)
	must(t, err)
	must(t, s.SetAccepted(31))
	must(t, s.SetCurrent(17))
	must(t, s.Close())
	for _, name := range []string{"acceptedEpoch", "currentEpoch"} {
		info, err := disk.Stat(dir + name)
		must(t, err)
		for bit := range info.Size * 8 {
			must(t, disk.FlipByte(dir+name, bit/8, 1<<(bit%8)))
			s := open(t, disk)
			if got, err := s.LoadEpochs(0); err == nil && got != (Epochs{31, 17}) {
				t.Errorf("bit %d of %s: %+v", bit, name, got)
			}
			must(t, s.Close())
			must(t, disk.FlipByte(dir+name, bit/8, 1<<(bit%8)))
		}
	}
}

// Without its epoch files a server has forgotten what it had promised, and reports that.
func TestHistoryWithoutEpochFilesIsNoted(t *testing.T) {
	disk := directory(t)
	for _, name := range []string{acceptedName, currentName} {
		if _, err := disk.Stat("data/version-2/" + name); err == nil {
			must(t, disk.Remove("data/version-2/"+name))
		}
	}
	must(t, vfs.ReplaceFile(disk, "data/myid", "data/t", []byte("1")))
	report, err := Check(disk, Options{DataDir: "data", LogDir: "logs"}, newModel)
	must(t, err)
	if notes := strings.Join(report.Notes, "\n"); !report.Sound() || !strings.Contains(notes, "neither acceptedEpoch nor currentEpoch") ||
		!strings.Contains(notes, "or for what conclave restore made; if") { // which is no loss
		t.Errorf("check: %q", notes)
	}
	for _, made := range []bool{true, false} {
		s := open(t, disk)
		r, err := s.Recover(newModel)
		must(t, err)
		_, err = s.LoadEpochs(r.Last)
		must(t, err)
		if text := s.MadeEpochsText(); (text != "") != made {
			t.Errorf("made %v: %q", made, text)
		}
		must(t, s.Close())
	}
}

// The promise is on the disk before the epoch that depends on it: if it is missing, it was
// lost.
func TestLostPromiseIsNoted(t *testing.T) {
	disk := directory(t)
	s := open(t, disk)
	r, err := s.Recover(newModel)
	must(t, err)
	_, err = s.LoadEpochs(r.Last)
	must(t, err)
	must(t, s.SetAccepted(3)) // and not SetCurrent: the epoch was promised, and has not come
	must(t, s.Close())
	must(t, vfs.ReplaceFile(disk, "data/myid", "data/t", []byte("1")))
	for _, c := range []struct {
		without string
		told    bool
	}{{"currentEpoch", false}, {"acceptedEpoch", true}, {"", false}} {
		if c.without != "" {
			must(t, disk.Remove("data/version-2/"+c.without))
		}
		report, err := Check(disk, Options{DataDir: "data", LogDir: "logs"}, newModel)
		must(t, err)
		if notes := strings.Join(report.Notes, "\n"); strings.Contains(notes, "has currentEpoch and no acceptedEpoch") != c.told || !report.Sound() {
			t.Errorf("without %q: check: %q", c.without, notes)
		}
		s := open(t, disk)
		r, err := s.Recover(newModel)
		must(t, err)
		_, err = s.LoadEpochs(r.Last)
		must(t, err)
		if text := s.MadeEpochsText(); (text != "") != c.told {
			t.Errorf("without %q: %q", c.without, text)
		}
		must(t, s.Close())
	}
}

// A server that was alone has the only copy of its history: no leader's history replaces it
// before an ensemble has had it (datadir-S8).
func TestHistoryOfAServerThatWasAloneIsNotGivenUp(t *testing.T) {
	last := zk.MakeZxid(0, 5)
	disk := vfs.NewMem()
	for _, start := range []string{"first", "second"} {
		s := open(t, disk)
		_, err := s.LoadEpochs(last)
		must(t, err)
		if s.MayGiveUp(0, last) == nil || s.MayGiveUp(last-1, last) == nil || s.MayGiveUp(last, last) != nil {
			t.Errorf("%s start: %v, %v, %v", start, s.MayGiveUp(0, last), s.MayGiveUp(last-1, last), s.MayGiveUp(last, last))
		}
		must(t, s.Close())
	}
	if report, err := Check(disk, Options{DataDir: "data", LogDir: "logs"}, newModel); err != nil || !strings.Contains(strings.Join(report.Notes, "\n"), "logs/version-2/alone says") {
		t.Errorf("check: %+v, %v", report, err)
	}
	s := open(t, disk)
	_, err := s.LoadEpochs(last)
	must(t, err)
	must(t, s.SetAccepted(1))
	must(t, s.SetCurrent(1))
	if s.MayGiveUp(0, last) == nil {
		t.Error("an epoch that was begun is no history")
	}
	must(t, s.MayGiveUp(0, zk.MakeZxid(1, 1)))
	for _, want := range []bool{true, false} {
		if alone, err := s.Alone(); err != nil || alone != want {
			t.Errorf("alone: %v, %v", alone, err)
		}
		must(t, s.EndAlone())
	}
	must(t, s.MayGiveUp(0, last))
	must(t, s.Close())

	for what, at := range map[string]zk.Zxid{"nothing": 0, "what was restored": zk.MakeZxid(1<<16, 0)} {
		s := open(t, vfs.NewMem())
		_, err := s.LoadEpochs(at)
		must(t, err)
		if err := s.MayGiveUp(0, at); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}
