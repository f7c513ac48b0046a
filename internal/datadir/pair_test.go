package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/vfs"
)

// numbers returns a source of successive numbers.
func numbers() func() string {
	count := 0
	return func() string { count++; return fmt.Sprint("number-", count) }
}

// recovered opens and recovers, and closes again.
func recovered(disk vfs.FS, options Options) (*Recovered, error) {
	s, err := Open(disk, options)
	if err != nil {
		return nil, err
	}
	r, err := s.Recover(newModel)
	return r, errors.Join(err, s.Close())
}

// move moves files of one directory whose names begin with prefix to another.
func move(t testing.TB, disk *vfs.Mem, from, to, prefix string) {
	t.Helper()
	must(t, disk.MkdirAll(to))
	names, err := disk.List(from)
	must(t, err)
	for _, name := range names {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		content, err := vfs.ReadFile(disk, filepath.Join(from, name), 1<<20)
		must(t, err)
		must(t, vfs.ReplaceFile(disk, filepath.Join(to, name), filepath.Join(to, "moved"), content))
		must(t, disk.Remove(filepath.Join(from, name)))
	}
	for _, dir := range []string{to, from, filepath.Dir(to), "."} {
		must(t, disk.SyncDir(dir))
	}
}

const (
	dataVersion = "data/version-2"
	logsVersion = "logs/version-2"
)

// Whatever dataLogDir says, either the history up to 25 is there, or the start is refused with
// the place where the log was, and check says the same.
func TestStartWithoutTheLogOfItsSnapshotsIsRefused(t *testing.T) {
	other := func(t *testing.T, disk *vfs.Mem) { // the log of another server
		_, err := recovered(disk, Options{DataDir: "otherdata", LogDir: "other", Number: func() string { return "another" }})
		must(t, err)
	}
	empty := func(t *testing.T, disk *vfs.Mem) { must(t, disk.MkdirAll("other/version-2")) }
	for _, test := range []struct {
		name, logDir string
		change       func(*testing.T, *vfs.Mem)
	}{
		{"the line is dropped", "", func(*testing.T, *vfs.Mem) {}},
		{"a directory that is not there", "other", func(*testing.T, *vfs.Mem) {}},
		{"an empty directory", "other", empty},
		{"the log of another server", "other", other},
		{"a volume that is not mounted", "logs", func(t *testing.T, disk *vfs.Mem) { move(t, disk, logsVersion, "away", "") }},
		{"the log alone was moved", "other", func(t *testing.T, disk *vfs.Mem) { move(t, disk, logsVersion, "other/version-2", "log.") }},
	} {
		t.Run(test.name, func(t *testing.T) {
			disk := directory(t)
			test.change(t, disk)
			options := Options{DataDir: "data", LogDir: test.logDir, Number: numbers()}
			readOnly := &vfs.Faulty{Disk: disk, Before: func(op vfs.Op) error {
				if op.Changes() || op.Kind == vfs.KindLock {
					t.Errorf("a start that is refused does %s", op)
				}
				return nil
			}}
			_, err := recovered(readOnly, options)
			var elsewhere *LogElsewhere
			if !errors.As(err, &elsewhere) || elsewhere.At != logsVersion || !strings.Contains(err.Error(), "dataLogDir=logs,") {
				t.Fatalf("%v", err)
			}
			r, checkErr := Check(readOnly, options, newModel)
			must(t, checkErr)
			if !r.LogElsewhere || r.Refusal != err.Error() || !slices.Contains(r.Problems, r.Refusal) {
				t.Errorf("check says %q", r.Refusal)
			}
			must(t, disk.Remove(elsewhere.Mark)) // on purpose
			if r, err := recovered(disk, options); err != nil || r.Last < 20 {
				t.Errorf("given up on purpose: %+v %v", r, err)
			}
		})
	}
}

// Both directories may be moved to other places, and these may contain another server's files,
// or none of this project's.
func TestSnapshotsAndTheirLogAreAtHomeAnywhere(t *testing.T) {
	for _, test := range []struct {
		name, dataDir, logDir string
		change                func(*testing.T, *vfs.Mem)
		at                    string
	}{
		{"both moved", "d2", "l2", func(t *testing.T, disk *vfs.Mem) {
			move(t, disk, dataVersion, "d2/version-2", "")
			move(t, disk, logsVersion, "l2/version-2", "")
		}, "l2/version-2"},
		{"the log moved whole", "data", "l2", func(t *testing.T, disk *vfs.Mem) {
			move(t, disk, logsVersion, "l2/version-2", "")
		}, "l2/version-2"},
		{"put into one directory", "data", "", func(t *testing.T, disk *vfs.Mem) {
			move(t, disk, logsVersion, dataVersion, "")
		}, dataVersion},
		{"of Apache or an older version", "data", "logs", func(t *testing.T, disk *vfs.Mem) {
			must(t, disk.Remove(filepath.Join(dataVersion, logAtName)))
			must(t, disk.Remove(filepath.Join(logsVersion, logIDName)))
		}, logsVersion},
		{"snapshots of a backup from before the number", "data", "logs", func(t *testing.T, disk *vfs.Mem) {
			must(t, disk.Remove(filepath.Join(dataVersion, logAtName)))
		}, logsVersion},
		{"an empty number, which a full disk left", "data", "logs", func(t *testing.T, disk *vfs.Mem) {
			must(t, disk.Remove(filepath.Join(dataVersion, logAtName)))
			must(t, vfs.ReplaceFile(disk, filepath.Join(logsVersion, logIDName), filepath.Join(logsVersion, "temp"), nil))
		}, logsVersion},
	} {
		t.Run(test.name, func(t *testing.T) {
			disk := directory(t)
			test.change(t, disk)
			options := Options{DataDir: test.dataDir, LogDir: test.logDir, Number: numbers()}
			for range 2 {
				if r, err := recovered(disk, options); err != nil || r.Last != 25 {
					t.Fatalf("%+v %v", r, err)
				}
				disk = disk.CrashClone(0, 1)
			}
			if _, at, err := newStore(disk, options).readLogAt(); err != nil || at != test.at {
				t.Errorf("%q is noted, %v", at, err)
			}
			if r, err := Check(disk, options, newModel); err != nil || !r.Sound() || r.LogElsewhere {
				t.Errorf("check says %+v, %v", r, err)
			}
			if r, err := recovered(disk, Options{DataDir: test.dataDir, LogDir: "nowhere"}); err == nil {
				t.Errorf("starts without its log, at %s", r.Last)
			}
		})
	}
}

// A log that was copied to another disk continues there. With the old configuration line, the
// copy that is left behind would yield a history that ends where the copy was made, and nothing
// would be noticed. A crash while the log gets another number leaves a directory that is
// accepted.
func TestCopyOfTheLogThatIsLeftBehindIsRefused(t *testing.T) {
	for crash := 0; ; crash++ {
		disk, number := directory(t), numbers()
		number() // the number of the log
		move(t, disk, logsVersion, "fast/version-2", "")
		copied := disk.KillClone()
		changes, reached := 0, false
		power := &vfs.Faulty{Disk: disk, Before: func(op vfs.Op) error {
			if op.Changes() && (strings.Contains(op.Name, logAtName) || strings.Contains(op.Name, logIDName)) {
				changes++
				reached = reached || changes == crash
			}
			if reached {
				return errors.New("no power")
			}
			return nil
		}}
		fast := Options{DataDir: "data", LogDir: "fast", Number: number}
		_, err := recovered(power, fast)
		if reached == (err == nil) {
			t.Fatalf("operation %d: %v", crash, err)
		}
		disk = disk.CrashClone(0, int64(crash))
		s, err := Open(disk, fast)
		must(t, err)
		r, err := s.Recover(newModel)
		if err != nil || r.Last != 25 {
			t.Fatalf("after operation %d: %+v, %v", crash, r, err)
		}
		log, err := s.OpenLog(25)
		must(t, err)
		must(t, appendAll(log, 26, 27))
		must(t, errors.Join(log.Close(), s.Close()))

		// The directory that was left behind, unchanged.
		move(t, copied, "fast/version-2", logsVersion, "")
		must(t, disk.MkdirAll(logsVersion))
		names, err := copied.List(logsVersion)
		must(t, err)
		for _, name := range names {
			content, err := vfs.ReadFile(copied, filepath.Join(logsVersion, name), 1<<20)
			must(t, err)
			must(t, vfs.ReplaceFile(disk, filepath.Join(logsVersion, name), filepath.Join(logsVersion, "copied"), content))
		}
		var elsewhere *LogElsewhere
		if r, err := recovered(disk, Options{DataDir: "data", LogDir: "logs", Number: number}); !errors.As(err, &elsewhere) || elsewhere.At != "fast/version-2" {
			t.Errorf("after operation %d: the copy is taken for the log: %+v, %v", crash, r, err)
		}
		if r, err := recovered(disk, fast); err != nil || r.Last != 27 {
			t.Errorf("after operation %d: %+v, %v", crash, r, err)
		}
		if crash > 0 && !reached {
			break
		}
	}
}

// A directory that contains everything has no mark: it may get a dataLogDir, with its log.
func TestOneDirectoryIsNotMarked(t *testing.T) {
	disk := vfs.NewMem()
	_, err := recovered(disk, Options{DataDir: "data", Number: numbers()})
	must(t, err)
	for _, name := range []string{logAtName, logIDName} {
		if _, err := disk.Stat(filepath.Join(dataVersion, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err = recovered(disk, Options{DataDir: "data", LogDir: "logs", Number: numbers()})
	must(t, err)
}

// Directories that do not belong together are refused because of their content; the right one
// may be configured after that.
func TestRefusedDirectoriesAreNotNotedAsOne(t *testing.T) {
	disk := directory(t)
	must(t, disk.Remove(filepath.Join(dataVersion, logAtName)))
	must(t, disk.Remove(filepath.Join(logsVersion, logIDName)))
	move(t, disk, logsVersion, "wrong/version-2", "log.b")
	move(t, disk, dataVersion, "away", "snapshot.14")
	if r, err := recovered(disk, Options{DataDir: "data", LogDir: "logs", Number: numbers()}); err == nil {
		t.Fatalf("a log with a gap: %+v", r)
	}
	move(t, disk, logsVersion, "wrong/version-2", "log.")
	if r, err := recovered(disk, Options{DataDir: "data", LogDir: "wrong", Number: numbers()}); err != nil || r.Last != 25 {
		t.Errorf("%+v %v", r, err)
	}
}

func TestDamagedNoteOfTheLogIsRefused(t *testing.T) {
	for _, content := range []string{"", "\n", "number-1\n", "\nlogs/version-2\n"} {
		disk := directory(t)
		must(t, vfs.ReplaceFile(disk, filepath.Join(dataVersion, logAtName), filepath.Join(dataVersion, "temp"), []byte(content)))
		if _, err := Open(disk, Options{DataDir: "data", LogDir: "logs"}); !vfs.IsCorruption(err) {
			t.Errorf("%q: %v", content, err)
		}
	}
}

// A start on a full disk is not refused only because the note cannot be written; the next start
// writes it.
func TestFullDiskNotesNothing(t *testing.T) {
	for fail := 1; ; fail++ {
		disk := directory(t)
		must(t, disk.Remove(filepath.Join(dataVersion, logAtName)))
		must(t, disk.Remove(filepath.Join(logsVersion, logIDName)))
		count := 0
		full := &vfs.Faulty{Disk: disk, Before: func(op vfs.Op) error {
			if !op.Changes() || !strings.Contains(op.Name, logAtName) && !strings.Contains(op.Name, logIDName) {
				return nil
			}
			if count++; count == fail {
				return vfs.ErrNoSpace
			}
			return nil
		}}
		options := Options{DataDir: "data", LogDir: "logs", Number: numbers()}
		if r, err := recovered(full, options); err != nil || r.Last != 25 {
			t.Fatalf("operation %d: %+v %v", fail, r, err)
		}
		if count < fail {
			break
		}
		disk = disk.CrashClone(0, int64(fail))
		if r, err := recovered(disk, options); err != nil || r.Last != 25 {
			t.Errorf("after operation %d: %+v %v", fail, r, err)
		}
		if _, at, err := newStore(disk, options).readLogAt(); at != logsVersion || err != nil {
			t.Errorf("after operation %d: %q is noted, %v", fail, at, err)
		}
	}
}
