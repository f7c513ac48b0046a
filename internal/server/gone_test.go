package server

import (
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/vfs/osfs"
	"github.com/conclave-project/conclave/zk"
)

// A file without a name accepts writes and syncs, and no start finds it. Then the state exists
// only in memory: the server keeps it, and reports that.
func TestServerAcknowledgesNothingThatIsInFilesWithoutNames(t *testing.T) {
	aside := func(dir string) string { return dir + ".aside" }
	for _, c := range []struct {
		what       string
		lose, back func(dir string) error
	}{
		{"the directory is renamed",
			func(dir string) error { return os.Rename(dir, aside(dir)) },
			func(dir string) error { return os.Rename(aside(dir), dir) }},
		{"another takes its place",
			func(dir string) error {
				if err := os.Rename(dir, aside(dir)); err != nil {
					return err
				}
				return os.Mkdir(dir, 0o700)
			},
			func(dir string) error {
				if err := os.Remove(dir); err != nil {
					return err
				}
				return os.Rename(aside(dir), dir)
			}},
		{"the log is renamed",
			func(dir string) error { return os.Rename(filepath.Join(dir, "log.1"), aside(dir)) },
			func(dir string) error { return os.Rename(aside(dir), filepath.Join(dir, "log.1")) }},
		{"the directory is removed", os.RemoveAll, nil},
	} {
		t.Run(c.what, func(t *testing.T) {
			data, now, log := t.TempDir(), clock.NewManual(0), &awaittest.Log{}
			s := start(t, osfs.New(), func(cfg *Config) {
				cfg.DataDir, cfg.Clock, cfg.Logger = data, now, slog.New(slog.NewTextHandler(log, nil))
			})
			p := dial(t, s, nil)
			p.must(zk.OK, create("/n", "kept", 0))
			if err := c.lose(s.LogDir()); err != nil {
				t.Fatal(err)
			}
			awaittest.Until(t, "it is known", func() bool {
				now.Advance(s.cfg.TickTime)
				return s.diskFull.Load() && strings.Contains(log.String(), "the files of this server have gone")
			})
			if strings.Contains(log.String(), "disk is full") {
				t.Errorf("the log says:\n%s", log)
			}
			p.must(zk.ErrNotReadOnly, zk.Request{Op: zk.OpSetData, Path: "/n", Version: -1})
			p.must(zk.OK, zk.Request{Op: zk.OpGetData, Path: "/n"})
			if c.back == nil {
				return // the stop is clean all the same
			}
			if err := c.back(s.LogDir()); err != nil {
				t.Fatal(err)
			}
			awaittest.Until(t, "writes are accepted again", func() bool {
				now.Advance(spaceRetry / 4)
				code, _ := p.do(zk.Request{Op: zk.OpSetData, Path: "/n", Version: -1})
				return code == zk.OK
			})
			awaittest.Until(t, "it is said", func() bool { return strings.Contains(log.String(), "the files of this server are back") })
		})
	}
}

// Files that disappear while the disk is full are reported as well, and so is a disk that is
// full when they are back.
func TestGoneAndFullAreToldApart(t *testing.T) {
	log := &awaittest.Log{}
	s, err := New(testConfig(vfs.NewMem(), func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(log, nil)) }))
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	gone := os.ErrNotExist
	for _, err := range []error{vfs.ErrNoSpace, gone, vfs.ErrNoSpace, nil, gone, gone, nil, nil} {
		s.noteSpace(err)
		if s.diskFull.Load() != (err != nil) {
			t.Errorf("%v: full is %v", err, s.diskFull.Load())
		}
	}
	awaittest.Until(t, "the last line", func() bool { return strings.Contains(log.String(), "are back") })
	for text, want := range map[string]int{"disk is full": 2, "files of this server have gone": 2, "has space again": 1, "are back": 1} {
		if n := strings.Count(log.String(), text); n != want {
			t.Errorf("%q is %d times in the log, want %d:\n%s", text, n, want, log)
		}
	}
}

// With dataLogDir, two disks may be full: the log names the directory that has no space, where df shows it.
func TestDirectoryWithoutSpaceIsNamed(t *testing.T) {
	log := &awaittest.Log{}
	s, err := New(testConfig(vfs.NewMem(), func(c *Config) { c.DataLogDir, c.Logger = "/log", slog.New(slog.NewTextHandler(log, nil)) }))
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	for _, dir := range []string{s.SnapDir(), s.LogDir()} {
		s.noteSpace(fmt.Errorf("set an epoch: %w", &fs.PathError{Op: "write", Path: filepath.Join(dir, "file"), Err: vfs.ErrNoSpace}))
		s.noteSpace(nil)
		awaittest.Until(t, "it is named twice: when it is full, and when it has space again", func() bool {
			return strings.Count(log.String(), " dir="+dir) == 2
		})
	}
}

// No epoch is promised in a directory that no start would find.
func TestNoEpochGoesIntoADirectoryThatIsGone(t *testing.T) {
	data := t.TempDir()
	s, err := New(testConfig(osfs.New(), func(c *Config) { c.DataDir = data }))
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if err := os.Rename(s.LogDir(), s.LogDir()+".aside"); err != nil {
		t.Fatal(err)
	}
	s.stop(nil)
	if _, err := s.do(&diskWork{DiskOp: replica.DiskOp{Kind: replica.DiskSetAccepted, Epoch: 7}}); err != errStopped {
		t.Errorf("%v", err)
	}
}

// What makes a file when the directory has been removed a moment ago does not end the server: its memory
// has the only copy.
func TestFileInADirectoryThatIsGoneEndsNothing(t *testing.T) {
	data, log := t.TempDir(), &awaittest.Log{}
	s, err := New(testConfig(osfs.New(), func(c *Config) { c.DataDir, c.Logger = data, slog.New(slog.NewTextHandler(log, nil)) }))
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if err := os.RemoveAll(s.LogDir()); err != nil {
		t.Fatal(err)
	}
	s.takeSnapshot(s.beginSnapshot())
	awaittest.Until(t, "it is said", func() bool { return strings.Contains(log.String(), "no snapshot was taken") })
	if s.done.Err() != nil {
		t.Error("the server ends")
	}
	s.stop(nil)
	s.disk.seen = s.cfg.Clock.Now() // they were still there
	if err := s.carryOut(nil, true); err != errStopped {
		t.Errorf("a new segment of the log: %v", err)
	}
}
