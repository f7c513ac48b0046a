package autobackup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/backup"
	"github.com/conclave-project/conclave/internal/inprocess"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/vfs/osfs"
)

// ensemble runs servers in memory whose backups go to one place.
type ensemble struct {
	*inprocess.Ensemble
	t       *testing.T
	told    awaittest.Log
	disk    *vfs.Mem // the disk of the place
	runners map[int]*Runner
	stop    map[int]func()
}

func start(t *testing.T, servers int) *ensemble {
	t.Helper()
	base := server.Default()
	base.TickTime, base.SilenceTime, base.PreallocBytes, base.SnapCount = 200*time.Millisecond, 20*time.Second, 1<<20, 40
	base.HistoryMax = 50_000
	disks := map[int]*vfs.Mem{}
	for id := 1; id <= servers; id++ {
		disks[id] = vfs.NewMem()
	}
	started, err := inprocess.Start(inprocess.Options{Servers: servers, Base: base, Change: func(id int, c *server.Config) {
		c.FS, c.DataDir = disks[id], "/data"
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(started.Close)
	return &ensemble{Ensemble: started, t: t, disk: vfs.NewMem(), runners: map[int]*Runner{}, stop: map[int]func(){}}
}

// back makes a server take backups until the test ends, or stop is called.
func (e *ensemble) back(id int, s Settings, open Open, changes ...func(*Runner)) {
	if open == nil {
		open = func(context.Context) (backup.Place, func(), error) {
			dir, err := backup.LockDir(e.disk, "/backup")
			return dir, func() { dir.Close() }, err
		}
	}
	r := New(s, open, clock.System(), slog.New(slog.NewTextHandler(&e.told, nil)))
	for _, change := range changes {
		change(r)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	srv := e.Server(id)
	go func() {
		defer close(ended)
		r.Run(ctx, srv)
	}()
	e.runners[id] = r
	e.stop[id] = func() {
		cancel()
		<-ended
	}
	e.t.Cleanup(e.stop[id])
}

func (e *ensemble) dial() *client.Client {
	e.t.Helper()
	c, err := client.Dial(awaittest.Within(e.t), strings.Join(e.Addrs(), ","), client.Options{RetryFor: time.Minute})
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { c.Close() })
	return c
}

func (e *ensemble) write(c *client.Client, name string, n int) {
	e.t.Helper()
	for i := range n {
		if _, _, err := c.Create(awaittest.Within(e.t), fmt.Sprintf("/%s-%d", name, i), []byte(name), client.CreateOptions{}); err != nil {
			e.t.Fatal(err)
		}
	}
}

// restores waits until the newest moment of the backup is the state of a server.
func (e *ensemble) restores(of *server.Server) {
	e.t.Helper()
	awaittest.Until(e.t, "a backup of the server's state", func() bool {
		b, err := backup.Open(e.t.Context(), backup.OpenDir(e.disk, "/backup"))
		if err != nil {
			return false
		}
		state, err := b.Load(e.t.Context(), backup.Moment{})
		st := of.Status()
		if err != nil || state.Zxid != st.Last {
			return false
		}
		if got := state.Tree().Digest().Value; got != st.Digest || state.Mismatches > 0 {
			e.t.Fatalf("the digest of the backup at %s is %x, that of the server %x", state.Zxid, got, st.Digest)
		}
		return true
	})
}

// reported waits until a runner reports a backup of everything that its server has. The backup is
// in the place a moment earlier.
func (e *ensemble) reported(id int) {
	e.t.Helper()
	awaittest.Until(e.t, "the backup is told of", func() bool { return e.runners[id].Report().Last == e.Server(id).Status().Last })
}

// often returns the settings of a test.
func often(by By) Settings {
	s := Default()
	s.Place, s.Every, s.By = "/backup", 20*time.Millisecond, by
	return s
}

func (e *ensemble) led() int {
	e.t.Helper()
	awaittest.Until(e.t, "a leader", func() bool { return e.Leader() != 0 })
	return e.Leader()
}

// Only the leader writes to the place. When another server leads, it continues where the first
// leader ended.
func TestLeaderTakesBackupsAndTheNextOneGoesOn(t *testing.T) {
	e := start(t, 3)
	leader := e.led()
	for id := 1; id <= 3; id++ {
		e.back(id, often(ByLeader), nil)
	}
	c := e.dial()
	e.write(c, "first", 100)
	e.restores(e.Server(leader))
	e.reported(leader)
	for id, r := range e.runners {
		report := r.Report()
		if leads := id == leader; (report.Taken > 0) != leads || report.Due != leads || report.Failed > 0 {
			t.Errorf("server %d, the leader is %d: %+v", id, leader, report)
		}
	}

	e.stop[leader]()
	if err := e.Stop(leader); err != nil {
		t.Fatal(err)
	}
	next := e.led()
	e.write(c, "second", 100)
	e.restores(e.Server(next))
	e.reported(next)
	report := e.runners[next].Report()
	if report.Taken == 0 || report.Gaps > 0 || report.Age < 0 {
		t.Errorf("%+v", report)
	}
}

// Servers that share a directory wait for each other, which is not a failure.
func TestServersThatShareADirectoryTakeTurns(t *testing.T) {
	e := start(t, 3)
	leader := e.led()
	for id := 1; id <= 3; id++ {
		e.back(id, often(ByPlace), nil)
	}
	e.write(e.dial(), "a", 200)
	e.restores(e.Server(leader))
	awaittest.Until(t, "a backup by each server", func() bool {
		return e.runners[1].Report().Taken > 0 && e.runners[2].Report().Taken > 0 && e.runners[3].Report().Taken > 0
	})
	for id, r := range e.runners {
		if report := r.Report(); report.Failed > 0 {
			t.Errorf("server %d: %+v", id, report)
		}
	}
}

// failing is a place that can be made to fail.
type failing struct {
	backup.Place
	fails atomic.Bool
}

func (f *failing) Put(ctx context.Context, name string, write func(io.Writer) error) error {
	if f.fails.Load() {
		return errors.New("no such bucket")
	}
	return f.Place.Put(ctx, name, write)
}

func TestBackupThatFailsIsCountedToldOnceAndTriedAgain(t *testing.T) {
	e := start(t, 1)
	place := &failing{Place: backup.OpenDir(e.disk, "/backup")}
	if err := e.disk.MkdirAll("/backup"); err != nil {
		t.Fatal(err)
	}
	place.fails.Store(true)
	e.back(1, often(ByPlace), func(context.Context) (backup.Place, func(), error) { return place, func() {}, nil })
	r := e.runners[1]
	awaittest.Until(t, "failures", func() bool { return r.Report().Failed >= 5 })
	if n := e.told.Count("no such bucket"); n != 1 || r.Report().Taken != 0 || r.Report().Age == 0 {
		t.Errorf("told %d times: %+v", n, r.Report())
	}
	place.fails.Store(false)
	e.write(e.dial(), "a", 10)
	e.restores(e.Server(1))
	if n := e.told.Count("no such bucket"); n != 1 {
		t.Errorf("told %d times", n)
	}
}

// A store that never answers would block backups forever.
func TestPlaceThatDoesNotAnswerIsGivenUp(t *testing.T) {
	e := start(t, 1)
	e.back(1, often(ByPlace), func(ctx context.Context) (backup.Place, func(), error) {
		<-ctx.Done()
		return nil, nil, ctx.Err()
	}, func(r *Runner) { r.stall = 10 * time.Millisecond })
	awaittest.Until(t, "a failure", func() bool { return e.runners[1].Report().Failed >= 2 })
	if e.told.Count(errStalled.Error()) != 1 {
		t.Error(e.told.String())
	}
}

// A backup that waits because it may not read faster has not stalled.
func TestBackupAtASlowPaceGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		manual := clock.NewManual(clock.FromMillis(1000))
		p := newPace(t.Context(), manual, 64, 10*time.Minute)
		defer p.end()
		done := make(chan error, 1)
		go func() { done <- p.took(64 << 10) }()
		time.Sleep(1024 * time.Second)
		manual.Advance(1024 * time.Second)
		if err := <-done; err != nil {
			t.Error(err)
		}
		time.Sleep(11 * time.Minute) // this is a stall
		if err := p.took(1); err != errStalled {
			t.Error(err)
		}
	})
}

func TestBackupLeavesTheDiskSpace(t *testing.T) {
	e := start(t, 1)
	e.write(e.dial(), "a", 10)
	s := often(ByPlace)
	s.Place, s.FreeBytesMin = t.TempDir(), 1<<50
	open := func(context.Context) (backup.Place, func(), error) {
		return backup.OpenDir(osfs.New(), s.Place), func() {}, nil
	}
	e.back(1, s, open)
	awaittest.Until(t, "a failure", func() bool { return e.runners[1].Report().Failed > 0 })
	e.stop[1]()
	if left, err := os.ReadDir(s.Place); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
	if e.told.Count("conclave.backupFreeBytesMin") == 0 {
		t.Error(e.told.String())
	}
	s.FreeBytesMin = 0
	e.back(1, s, open)
	awaittest.Until(t, "a backup", func() bool { return e.runners[1].Report().Taken > 0 })
}

// A read that is faster than allowed waits, by the clock.
func TestReadingKeepsItsPace(t *testing.T) {
	disk := vfs.NewMem()
	file, err := disk.Create("/a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	manual := clock.NewManual(clock.FromMillis(1000))
	ctx, cancel := context.WithCancel(t.Context())
	p := newPace(ctx, manual, 1<<20, time.Hour)
	defer p.end()
	paced := pacedFS{disk, p}
	read := func() chan error {
		f, err := paced.Open("/a")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			_, err := f.ReadAt(make([]byte, 1<<20), 0)
			done <- err
		}()
		return done
	}
	first := read()
	awaittest.Until(t, "a wait", func() bool { _, waits := manual.Next(); return waits })
	manual.Advance(999 * time.Millisecond)
	select {
	case err := <-first:
		t.Fatal("read too early:", err)
	default:
	}
	manual.Advance(time.Millisecond)
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	second := read()
	awaittest.Until(t, "a wait", func() bool { _, waits := manual.Next(); return waits })
	cancel() // the server ends: nothing goes on waiting
	if err := <-second; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestSettingsSayWhatWillHappen(t *testing.T) {
	s := Default()
	for place, want := range map[string]string{
		"":           "none: this server takes no backups by itself",
		"/b":         "to /b every 10m by this server, whatever its role; all is kept; in clear text",
		"s3://b/p":   "to s3://b/p every 10m by this server while it leads, or stands alone; all is kept; in clear text",
		"s3://u:p@b": "to s3://xxxxx@b every 10m by this server while it leads, or stands alone; all is kept; in clear text",
	} {
		s.Place = place
		if got := s.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	s.Place, s.KeepFor, s.Every, s.By = "/b", 720*time.Hour, 90*time.Second, ByLeader
	if got, want := s.String(), "to /b every 1m30s by this server while it leads, or stands alone; what the last 720h do not need is removed; in clear text"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
