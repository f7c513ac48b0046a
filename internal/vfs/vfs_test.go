package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func writeFile(t *testing.T, disk FS, name, content string, sync bool) {
	t.Helper()
	f, err := disk.Create(name)
	must(t, err)
	_, err = f.Write([]byte(content))
	must(t, err)
	if sync {
		must(t, f.Sync())
	}
	must(t, f.Close())
}

func readFile(disk FS, name string) string {
	content, err := ReadFile(disk, name, 1<<20)
	if err != nil {
		return "error: " + err.Error()
	}
	return string(content)
}

func TestCrashKeepsOnlyWhatWasSynced(t *testing.T) {
	disk := NewMem()
	must(t, disk.MkdirAll("a"))
	must(t, disk.SyncDir("/"))
	writeFile(t, disk, "a/named", "content", true)
	must(t, disk.SyncDir("a"))
	writeFile(t, disk, "a/unnamed", "content", true)
	writeFile(t, disk, "a/named", "new content, not synced", false)
	crashed := disk.CrashClone(0, 1)
	if got := readFile(crashed, "a/named"); got != "content" {
		t.Errorf("synced file: %q", got)
	}
	if _, err := crashed.Open("a/unnamed"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("file without a synced name: %v", err)
	}
	kept := disk.CrashClone(100, 1)
	if got := readFile(kept, "a/named") + readFile(kept, "a/unnamed"); got != "new content, not syncedcontent" {
		t.Errorf("everything kept: %q", got)
	}
}

func TestRenameSurvivesWithItsDirectoryOnly(t *testing.T) {
	disk := NewMem()
	writeFile(t, disk, "old", "1", true)
	must(t, disk.SyncDir("."))
	must(t, disk.Rename("old", "new"))
	if names, _ := disk.CrashClone(0, 1).List("."); fmt.Sprint(names) != "[old]" {
		t.Errorf("before the sync: %v", names)
	}
	must(t, disk.SyncDir("."))
	if names, _ := disk.CrashClone(0, 1).List("/"); fmt.Sprint(names) != "[new]" {
		t.Errorf("after the sync: %v", names)
	}
	must(t, disk.Remove("new"))
	if names, _ := disk.CrashClone(0, 1).List("/"); fmt.Sprint(names) != "[new]" {
		t.Errorf("removal not synced: %v", names)
	}
}

func TestCrashTearsAWriteAtSectorsAndIsRepeatable(t *testing.T) {
	disk := NewMem()
	f, err := disk.Create("f")
	must(t, err)
	must(t, f.Allocate(8*SectorBytes))
	must(t, f.Sync())
	must(t, disk.SyncDir("."))
	_, err = f.Write([]byte(strings.Repeat("x", 8*SectorBytes)))
	must(t, err)
	shapes := map[string]bool{}
	for seed := int64(0); seed < 50; seed++ {
		one, two := readFile(disk.CrashClone(50, seed), "f"), readFile(disk.CrashClone(50, seed), "f")
		if one != two {
			t.Fatalf("seed %d gives two disks", seed)
		}
		for at := 0; at < len(one); at += SectorBytes {
			if sector := one[at : at+SectorBytes]; strings.Trim(sector, "x") != "" && strings.Trim(sector, "\x00") != "" {
				t.Fatalf("seed %d: sector at %d is mixed", seed, at)
			}
		}
		shapes[one] = true
	}
	if len(shapes) < 20 {
		t.Errorf("%d different outcomes of 50", len(shapes))
	}
}

func TestFailedSyncIsNeverMadeGoodByALaterOne(t *testing.T) {
	disk := NewMem()
	fail := false
	faulty := &Faulty{Disk: disk, Before: func(op Op) error {
		if fail && op.Kind == KindSync {
			return errors.New("input/output error")
		}
		return nil
	}}
	writeFile(t, faulty, "f", "good", true)
	must(t, disk.SyncDir("."))
	f, err := faulty.OpenReadWrite("f")
	must(t, err)
	_, err = f.Write([]byte("lost"))
	must(t, err)
	fail = true
	if f.Sync() == nil {
		t.Fatal("no error injected")
	}
	fail = false
	must(t, f.Sync())
	if got := readFile(disk, "f"); got != "lost" {
		t.Errorf("programs read %q", got)
	}
	if got := readFile(disk.CrashClone(100, 1), "f"); got != "good" {
		t.Errorf("after the crash %q", got)
	}
}

func TestFullDisk(t *testing.T) {
	disk := NewMem()
	disk.SetCapacity(100)
	f, err := disk.Create("f")
	must(t, err)
	must(t, f.Allocate(60))
	if err := f.Allocate(101); !errors.Is(err, ErrNoSpace) {
		t.Errorf("allocate: %v", err)
	}
	g, err := disk.Create("g")
	must(t, err)
	if _, err := g.Write(make([]byte, 41)); !errors.Is(err, ErrNoSpace) {
		t.Errorf("write: %v", err)
	}
	if n, err := f.Write(make([]byte, 60)); n != 60 || err != nil {
		t.Errorf("write into allocated space: %d %v", n, err)
	}
	must(t, disk.Remove("f"))
	if _, err := g.Write(make([]byte, 100)); err != nil {
		t.Errorf("write after space returned: %v", err)
	}
	if disk.Used() != 100 {
		t.Errorf("used %d", disk.Used())
	}
	must(t, g.Truncate(10))
	if disk.Used() != 10 {
		t.Errorf("used %d after truncation", disk.Used())
	}
}

func TestReplaceFileLeavesOldOrNewAtEveryCrash(t *testing.T) {
	disk := NewMem()
	writeFile(t, disk, "epoch", "1", true)
	must(t, disk.SyncDir("."))
	var seen []string
	trace := &Trace{}
	faulty := &Faulty{Disk: disk, Before: func(op Op) error {
		for seed := int64(0); seed < 20; seed++ {
			if got := readFile(disk.CrashClone(50, seed), "epoch"); got != "1" && got != "2" {
				t.Fatalf("before %s: %q", op, got)
			} else {
				seen = append(seen, got)
			}
		}
		return trace.Before(op)
	}}
	must(t, ReplaceFile(faulty, "epoch", "epoch.tmp", []byte("2")))
	if got := readFile(disk.CrashClone(0, 1), "epoch"); got != "2" {
		t.Errorf("at the end %q", got)
	}
	if !strings.Contains(strings.Join(seen, ""), "12") {
		t.Error("no crash met the new content")
	}
	want := "create epoch.tmp\nwrite epoch.tmp 1\nsync epoch.tmp\nrename epoch.tmp -> epoch\nsyncdir .\n"
	if got := trace.Take(); got != want {
		t.Errorf("protocol:\n%swant:\n%s", got, want)
	}
}

func TestMemBehavesLikeFiles(t *testing.T) {
	disk := NewMem()
	f, err := disk.Create("f")
	must(t, err)
	_, err = f.Write([]byte("hello"))
	must(t, err)
	must(t, f.Truncate(2))
	must(t, f.Truncate(4))
	_, err = f.WriteAt([]byte("E"), 1)
	must(t, err)
	if got := readFile(disk, "f"); got != "hE\x00\x00" {
		t.Errorf("written at a place: %q", got)
	}
	_, err = f.WriteAt([]byte("e"), 1)
	must(t, err)
	p := make([]byte, 10)
	if n, err := f.ReadAt(p, 1); n != 3 || err != io.EOF || string(p[:3]) != "e\x00\x00" {
		t.Errorf("read %d %v %q", n, err, p[:n])
	}
	must(t, f.Close())
	if err := f.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("second close: %v", err)
	}
	r, err := disk.Open("f")
	must(t, err)
	if _, err := r.Write([]byte("x")); err == nil {
		t.Error("wrote to a file that is open for reading")
	}
	if _, err := disk.Create("missing/f"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("create in a missing directory: %v", err)
	}
	lock, err := disk.Lock(".")
	must(t, err)
	if _, err := disk.Lock("/"); !errors.Is(err, ErrLocked) {
		t.Errorf("second lock: %v", err)
	}
	must(t, lock.Close())
	lock, err = disk.Lock(".")
	must(t, err)
	must(t, lock.Close())
}
