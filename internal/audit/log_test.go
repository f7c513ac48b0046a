package audit

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// options returns the options of a log on a disk, whose clock the test moves.
func options(disk vfs.FS, w *awaittest.Log) (Options, *clock.Manual) {
	manual := clock.NewManual(clock.FromMillis(1000))
	return Options{
		FS: disk, File: "audit.log", BytesMax: 1 << 20, Kept: 3, User: "root", Clock: manual,
		Wall: func() time.Time { return moment }, Logger: slog.New(slog.NewTextHandler(w, nil)),
	}, manual
}

func begun(t *testing.T, o Options) *Log {
	t.Helper()
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Begin(&Event{Operation: ServerStart, Mode: NoMode, Result: Success}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func deleted(n int) *Event {
	return &Event{Session: 1, Client: []zk.Identity{ip("10.0.0.1")}, Operation: Delete, Path: fmt.Sprintf("/%04d", n), Mode: NoMode, Result: Success}
}

// read returns the lines of a file, or none if there is no file.
func read(t *testing.T, disk vfs.FS, name string) []string {
	t.Helper()
	if there, err := vfs.Exists(disk, name); err != nil || !there {
		return nil
	}
	content, err := vfs.ReadFile(disk, name, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	return strings.SplitAfter(strings.TrimSuffix(string(content), "\n"), "\n")
}

// scarce is a disk that accepts the part of a write for which it has space, as a real disk does.
type scarce struct {
	*vfs.Mem
	left atomic.Int64
}

const plenty = 1 << 40

func newScarce() *scarce {
	s := &scarce{Mem: vfs.NewMem()}
	s.left.Store(plenty)
	return s
}

func (s *scarce) OpenAppend(name string) (vfs.File, error) {
	f, err := s.Mem.OpenAppend(name)
	return &scarceFile{f, s}, err
}

type scarceFile struct {
	vfs.File
	disk *scarce
}

func (f *scarceFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p[:min(int64(len(p)), f.disk.left.Load())])
	f.disk.left.Add(-int64(n))
	if err == nil && n < len(p) {
		err = vfs.ErrNoSpace
	}
	return n, err
}

func TestEveryLineIsWrittenInItsOrder(t *testing.T) {
	disk := vfs.NewMem()
	o, _ := options(disk, &awaittest.Log{})
	l := begun(t, o)
	for n := range 1000 {
		l.Add(deleted(n))
	}
	l.Close()
	lines := read(t, disk, "audit.log")
	if len(lines) != 1001 || !strings.Contains(lines[0], "serverStart") {
		t.Fatal(len(lines), lines[0])
	}
	for n, line := range lines[1:] {
		if !strings.Contains(line, fmt.Sprintf("\tznode=/%04d\t", n)) {
			t.Fatalf("line %d is %q", n, line)
		}
	}
	if r := l.Report(); r != (Report{Written: 1001}) {
		t.Error(r)
	}
	l.Add(deleted(1)) // after the end: lost, and counted
	if r := l.Report(); r.Lost != 1 {
		t.Error(r)
	}
}

// A log is continued, and a line that a crash left incomplete is ended (audit-A3).
func TestLogGoesOnWhereItWas(t *testing.T) {
	disk := vfs.NewMem()
	f, err := disk.Create("audit.log")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("an old line\nhalf of")); err != nil {
		t.Fatal(err)
	}
	o, _ := options(disk, &awaittest.Log{})
	begun(t, o).Close()
	if lines := read(t, disk, "audit.log"); len(lines) != 3 || lines[1] != "half of\n" || !strings.Contains(lines[2], "serverStart") {
		t.Errorf("%q", lines)
	}
}

func TestFullFileMakesWayAndTheOldestGoes(t *testing.T) {
	disk := vfs.NewMem()
	o, _ := options(disk, &awaittest.Log{})
	line := int64(len(lineOf(deleted(0), "root")))
	o.BytesMax, o.Kept = 10*line, 2
	l := begun(t, o)
	for n := range 35 {
		l.Add(deleted(n))
	}
	l.Close()
	var all []string
	for _, name := range []string{"audit.log.2", "audit.log.1", "audit.log"} {
		lines := read(t, disk, name)
		if size := int64(len(strings.Join(lines, ""))); size > o.BytesMax || len(lines) == 0 {
			t.Errorf("%s has %d bytes", name, size)
		}
		all = append(all, lines...)
	}
	for i, line := range all {
		if n := 35 - len(all) + i; !strings.Contains(line, fmt.Sprintf("znode=/%04d\t", n)) {
			t.Fatalf("line %d is %q", n, line)
		}
	}
	if names, err := disk.List("."); err != nil || len(names) != 3 {
		t.Error(names, err)
	}
	if r := l.Report(); r != (Report{Written: 36}) {
		t.Error(r)
	}
}

// A line that is longer than a file has a file of its own.
func TestLongLineIsWrittenWhole(t *testing.T) {
	disk := vfs.NewMem()
	o, _ := options(disk, &awaittest.Log{})
	o.BytesMax = 200
	l := begun(t, o)
	long := deleted(1)
	long.Path = "/" + strings.Repeat("x", 1000)
	l.Add(long)
	l.Add(deleted(2))
	l.Close()
	for name, want := range map[string]string{"audit.log.2": "serverStart", "audit.log.1": long.Path, "audit.log": "/0002"} {
		if lines := read(t, disk, name); len(lines) != 1 || !strings.Contains(lines[0], want) {
			t.Errorf("%s: %q", name, lines)
		}
	}
}

// A rotation that fails at any operation is repeated, and no line and no file is lost.
func TestRotationThatFailsIsDoneAgain(t *testing.T) {
	var wrongAt, operations atomic.Int64
	for at := int64(1); ; at++ {
		disk := vfs.NewMem()
		wrongAt.Store(at)
		operations.Store(0)
		faulty := &vfs.Faulty{Disk: disk, Before: func(op vfs.Op) error {
			if op.Changes() && operations.Add(1) == wrongAt.Load() {
				return errors.New("broken")
			}
			return nil
		}}
		o, manual := options(faulty, &awaittest.Log{})
		o.BytesMax, o.Kept = 400, 20
		l, err := Open(o)
		if err == nil {
			err = l.Begin(&Event{Operation: ServerStart, Mode: NoMode, Result: Success})
		}
		if err != nil {
			continue // the start is refused
		}
		for n := range 12 {
			l.Add(deleted(n))
		}
		awaittest.Until(t, "all lines written", func() bool {
			if _, waits := manual.Next(); waits {
				manual.Advance(retryTime)
			}
			return l.Report().Written == 13
		})
		past := operations.Load() < at
		wrongAt.Store(0)
		l.Close()
		var all []string
		for n := 20; n >= 0; n-- {
			name := fmt.Sprintf("audit.log.%d", n)
			if n == 0 {
				name = "audit.log"
			}
			all = append(all, read(t, disk, name)...)
		}
		if len(all) != 13 || l.Report().Lost != 0 {
			t.Fatalf("operation %d: %d lines, %+v", at, len(all), l.Report())
		}
		for n, line := range all[1:] {
			if !strings.Contains(line, fmt.Sprintf("znode=/%04d\t", n)) {
				t.Fatalf("operation %d: line %d is %q", at, n, line)
			}
		}
		if past {
			return
		}
	}
}

// While the disk is full, lines wait as long as the queue has space for them; lines beyond that are
// lost and counted. The operator is told once a minute (audit-A2).
func TestFullDiskLosesWhatTheQueueCannotHold(t *testing.T) {
	disk, w := newScarce(), &awaittest.Log{}
	o, manual := options(disk, w)
	line := len(lineOf(deleted(0), "root"))
	o.QueueBytesMax = 10 * line
	l := begun(t, o)
	disk.left.Store(int64(line) / 2) // space for half a line
	l.Add(deleted(0))
	awaittest.Until(t, "an attempt", func() bool { return w.Count("cannot be written: lines are queued") == 1 })
	for n := 1; n < 100; n++ {
		l.Add(deleted(n)) // half of the first is written, so nine and a half more fit
	}
	if r := l.Report(); r.Written != 1 || r.Lost != 90 {
		t.Fatal(r)
	}
	for range 30 { // half a minute of attempts
		manual.Advance(retryTime)
	}
	if n := w.Count("lines of the audit log are lost"); n != 1 {
		t.Errorf("told %d times of what is lost", n)
	}
	manual.Advance(time.Minute)
	l.Add(deleted(100))
	if n := w.Count("lines of the audit log are lost"); n != 2 {
		t.Errorf("told %d times of what is lost", n)
	}
	disk.left.Store(plenty)
	awaittest.Until(t, "all that waited written", func() bool { manual.Advance(retryTime); return l.Report().Written == 11 })
	awaittest.Until(t, "the news of that", func() bool { return w.Count("can be written again") == 1 })
	l.Add(deleted(200))
	l.Close()
	lines := read(t, disk, "audit.log")
	if len(lines) != 12 || !strings.Contains(lines[1], "/0000") || !strings.Contains(lines[10], "/0009") || !strings.Contains(lines[11], "/0200") {
		t.Errorf("%q", lines)
	}
	if r := l.Report(); r != (Report{Written: 12, Lost: 91}) {
		t.Error(r)
	}
}

// If a disk never answers, adding a line blocks nobody, and the queue keeps its limit.
func TestAddWaitsForNoDisk(t *testing.T) {
	held, free := make(chan struct{}), make(chan struct{})
	var holds atomic.Bool
	disk := &vfs.Faulty{Disk: vfs.NewMem(), Before: func(op vfs.Op) error {
		if op.Kind == vfs.KindWrite && holds.CompareAndSwap(true, false) {
			close(held)
			<-free
		}
		return nil
	}}
	o, _ := options(disk, &awaittest.Log{})
	line := len(lineOf(deleted(0), "root"))
	o.QueueBytesMax = 100*line + 1
	l := begun(t, o)
	holds.Store(true)
	l.Add(deleted(0))
	<-held
	for n := 1; n < 1000; n++ {
		l.Add(deleted(n))
	}
	if r := l.Report(); r.Lost != 900 {
		t.Error(r)
	}
	l.mu.Lock()
	if l.mu.queued != 100*line || len(l.mu.pending) != 99*line {
		t.Error(l.mu.queued, len(l.mu.pending))
	}
	l.mu.Unlock()
	close(free)
	l.Close()
	if r := l.Report(); r != (Report{Written: 101, Lost: 900}) {
		t.Error(r)
	}
}

// Lines that wait for a disk that is full to the end are lost, and counted.
func TestLinesThatWaitAtTheEndAreCounted(t *testing.T) {
	disk, w := vfs.NewMem(), &awaittest.Log{}
	o, _ := options(disk, w)
	l := begun(t, o)
	disk.SetCapacity(0)
	l.Add(deleted(0))
	awaittest.Until(t, "an attempt", func() bool { return w.Count("cannot be written") == 1 })
	l.Add(deleted(1))
	l.Close()
	if r := l.Report(); r != (Report{Written: 1, Lost: 2}) {
		t.Error(r)
	}
}

// A file that somebody has moved away or shortened is created again. If the beginning of a line is
// in the other file, the rest of the line is lost, because it could be taken for a line of its own.
func TestFileThatWasMovedAwayIsMadeAgain(t *testing.T) {
	disk, w := newScarce(), &awaittest.Log{}
	o, manual := options(disk, w)
	l := begun(t, o)
	disk.left.Store(20)
	l.Add(deleted(0))
	awaittest.Until(t, "an attempt", func() bool { return w.Count("cannot be written") == 1 })
	if err := disk.Rename("audit.log", "moved"); err != nil {
		t.Fatal(err)
	}
	disk.left.Store(plenty)
	l.Add(deleted(1))
	awaittest.Until(t, "the other line written", func() bool { manual.Advance(retryTime); return l.Report().Written == 2 })
	l.Close()
	if lines := read(t, disk, "audit.log"); len(lines) != 1 || !strings.Contains(lines[0], "/0001") || !strings.HasPrefix(lines[0], "2026") {
		t.Errorf("%q", lines)
	}
	if r := l.Report(); r != (Report{Written: 2, Lost: 1}) {
		t.Error(r)
	}
}

func TestLogThatCannotBeWrittenIsRefused(t *testing.T) {
	disk := vfs.NewMem()
	o, _ := options(disk, &awaittest.Log{})
	o.File = "missing/audit.log"
	if _, err := Open(o); err == nil || !strings.HasPrefix(err.Error(), "the audit log missing/audit.log cannot be written: ") {
		t.Error(err)
	}
	disk.SetCapacity(0)
	o.File = "audit.log"
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.Begin(deleted(0)); !errors.Is(err, vfs.ErrNoSpace) {
		t.Error(err)
	}
}

func TestQuietLogAllocatesNothing(t *testing.T) {
	o, _ := options(vfs.NewMem(), &awaittest.Log{})
	o.QueueBytesMax = 1 // no space for anything
	l := begun(t, o)
	e := deleted(0)
	l.Add(e)
	if n := testing.AllocsPerRun(100, func() { l.Add(e) }); n != 0 {
		t.Errorf("%v allocations for a line", n)
	}
}

// BenchmarkAdd measures what a line costs the loop.
func BenchmarkAdd(b *testing.B) {
	o, _ := options(vfs.NewMem(), &awaittest.Log{})
	o.Wall, o.BytesMax, o.Kept = time.Now, 1<<20, 1
	l, err := Open(o)
	if err != nil {
		b.Fatal(err)
	}
	if err := l.Begin(deleted(0)); err != nil {
		b.Fatal(err)
	}
	e := deleted(1)
	b.ReportAllocs()
	for b.Loop() {
		l.Add(e)
	}
	l.Close()
	b.ReportMetric(float64(l.Report().Lost)/float64(b.N), "lost/op")
}

// BenchmarkBatch measures what a batch of lines costs until it is in the queue; the figure is for
// 64 lines.
func BenchmarkBatch(b *testing.B) {
	o, _ := options(vfs.NewMem(), &awaittest.Log{})
	o.Wall = time.Now
	l, err := Open(o)
	if err != nil {
		b.Fatal(err)
	}
	e := Event{Session: 1, Client: []zk.Identity{ip("127.0.0.1")}, Operation: SetData, Path: "/bench/d0001234", Mode: NoMode, Result: Success}
	b.ReportAllocs()
	for b.Loop() {
		lines := l.Batch()
		for range 64 {
			lines.Add(&e)
		}
		l.mu.pending, l.mu.queued = l.mu.pending[:0], 0
		lines.End()
	}
	l.Close()
}

// counting is a disk that counts the writes to its files.
type counting struct {
	*vfs.Mem
	writes atomic.Int64
}

func (c *counting) OpenAppend(name string) (vfs.File, error) {
	f, err := c.Mem.OpenAppend(name)
	return &countingFile{f, c}, err
}

type countingFile struct {
	vfs.File
	disk *counting
}

func (f *countingFile) Write(p []byte) (int, error) {
	f.disk.writes.Add(1)
	return f.File.Write(p)
}

// The first line is written at once; the lines that come soon after it are written together.
func TestLinesGatherAfterAWrite(t *testing.T) {
	disk := &counting{Mem: vfs.NewMem()}
	o, manual := options(disk.Mem, &awaittest.Log{})
	o.FS = disk
	l := begun(t, o)
	l.Add(deleted(1))
	awaittest.Until(t, "the first line is written", func() bool { return l.Report().Written == 2 })
	for n := range 100 {
		l.Add(deleted(n))
	}
	awaittest.Until(t, "the others are written", func() bool {
		manual.Advance(gatherTime)
		return l.Report().Written == 102
	})
	if n := disk.writes.Load(); n != 3 {
		t.Errorf("%d writes, not one for the start, the first line and all others each", n)
	}
}

// If there are many lines, they are written before their time has come: the clock is not moved
// here.
func TestManyLinesGatherForNoTime(t *testing.T) {
	o, _ := options(vfs.NewMem(), &awaittest.Log{})
	o.BytesMax = 16 << 20
	l := begun(t, o)
	l.Add(deleted(1))
	awaittest.Until(t, "the first line is written", func() bool { return l.Report().Written == 2 })
	b := l.Batch()
	lines := int64(0)
	for ; len(l.mu.pending) < gatherBytes; lines++ {
		b.Add(deleted(int(lines)))
	}
	b.End()
	awaittest.Until(t, "the others are written", func() bool { return l.Report().Written == 2+lines })
}

// The fields of a client are made again when another client comes, or when it has proved more.
func TestLineNamesItsClient(t *testing.T) {
	disk := vfs.NewMem()
	o, _ := options(disk, &awaittest.Log{})
	l := begun(t, o)
	first, second := []zk.Identity{ip("10.0.0.1")}, []zk.Identity{ip("10.0.0.2")}
	more := append(first[:1:1], zk.Identity{Scheme: "digest", ID: "bob:hash"})
	clients := [][]zk.Identity{first, first, second, first, more, more, nil, {}, more[:1], more}
	want := []string{"1", "1", "2", "1", "1,bob", "1,bob", "", "", "1", "1,bob"}
	for _, client := range clients {
		e := deleted(0)
		e.Client = client
		l.Add(e)
	}
	l.Close()
	for i, line := range read(t, disk, "audit.log")[1:] {
		named := "\tuser=10.0.0." + want[i] + "\tip="
		if want[i] == "" {
			named = map[bool]string{true: "\tuser=root\toperation=", false: "session=0x1\toperation="}[clients[i] == nil]
		}
		if !strings.Contains(line, named) {
			t.Errorf("line %d lacks %q: %q", i, named, line)
		}
	}
}

// stuck is a disk on which writes wait until it is released.
type stuck struct {
	*vfs.Mem
	held    atomic.Bool
	waits   chan struct{} // a token when a write waits
	release chan struct{}
}

func (s *stuck) OpenAppend(name string) (vfs.File, error) {
	f, err := s.Mem.OpenAppend(name)
	return &stuckFile{f, s}, err
}

type stuckFile struct {
	vfs.File
	disk *stuck
}

func (f *stuckFile) Write(b []byte) (int, error) {
	if f.disk.held.Load() {
		f.disk.waits <- struct{}{}
		<-f.disk.release
	}
	return f.File.Write(b)
}

// TestCloseDoesNotWaitForADiskThatDoesNotAnswer checks that a server that is told to end does end,
// and reports what may be missing.
func TestCloseDoesNotWaitForADiskThatDoesNotAnswer(t *testing.T) {
	var w awaittest.Log
	disk := &stuck{Mem: vfs.NewMem(), waits: make(chan struct{}, 1), release: make(chan struct{})}
	o, manual := options(disk, &w)
	l := begun(t, o)
	disk.held.Store(true)
	l.Add(deleted(1))
	<-disk.waits
	closed := make(chan struct{})
	go func() {
		l.Close()
		close(closed)
	}()
	awaittest.Until(t, "the log has ended", func() bool {
		manual.Advance(time.Second)
		select {
		case <-closed:
			return true
		default:
			return false
		}
	})
	if w.Count("the disk of the audit log does not answer") != 1 {
		t.Errorf("%s", w.String())
	}
	disk.held.Store(false)
	close(disk.release)
	<-l.ended
	if lines := read(t, disk.Mem, "audit.log"); len(lines) != 2 {
		t.Errorf("what was on its way is not in the file: %q", lines)
	}
}
