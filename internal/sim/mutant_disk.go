package sim

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/txnlog"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// mutate queues an operation on a mutant's disk, or does something else with it.
func (t *turns) mutate(o operation) {
	w := t.p.w
	done := replica.Event{Kind: replica.EventDone, Ticket: o.Ticket}
	switch {
	case w.is(AckBeforeSync) && o.Kind == replica.DiskSync:
		t.p.push(done)
	case w.is(AckWithoutLog) && !t.p.leads() && o.Kind == replica.DiskAppend && t.p.serving:
		return // the sync after it is reported nevertheless
	case w.is(EpochBeforeLog) && o.Kind == replica.DiskSetCurrent:
		if _, err := t.disk.Do(&o.DiskOp, nil); err != nil {
			t.fatal(err)
			return
		}
	case w.is(PromiseForgotten) && o.Kind == replica.DiskSetAccepted:
		o.Epoch = t.disk.Store().Epochs().Accepted // as it was
	case w.is(PromiseForgotten) && o.Kind == replica.DiskSetCurrent:
		t.queue = append(t.queue, operation{DiskOp: replica.DiskOp{Kind: replica.DiskSetAccepted, Epoch: o.Epoch}})
	case w.is(SnapshotSavedLate) && o.Kind == replica.DiskSaveSnapshot:
		t.p.push(done)
		t.late = &o
		t.p.later(lateMs, t.saveLate)
		return
	case o.Kind == replica.DiskAppend:
		t.saveLate()
	}
	t.queue = append(t.queue, o)
}

// lateMs is how long a mutant leaves a snapshot unsaved, unless the log continues after it.
const lateMs = 500

// saveLate saves what a mutant has left unsaved.
func (t *turns) saveLate() {
	if t.late != nil {
		t.queue = append(t.queue, *t.late)
		t.late = nil
		t.turn()
	}
}

// mutateDone changes what a mutant's disk reports about an operation.
func (t *turns) mutateDone(o *operation, e replica.Event) replica.Event {
	if t.p.w.is(FailureUntold) && e.Kind == replica.EventFailed {
		return replica.Event{Kind: replica.EventTick}
	}
	if t.p.w.is(TreeKept) && o.Kind == replica.DiskTruncate {
		e.State = nil
	}
	return e
}

// mutateRecovered changes what a mutant's recovery has found.
func (p *process) mutateRecovered(r replica.Recovered) replica.Recovered {
	p.forgetReconfig(&r)
	if p.w.is(EmptyDiskVotes) {
		r.Untrusted = false
	}
	return r
}

// mutateFS wraps the file system of a mutant.
func (p *process) mutateFS(fsys vfs.FS) vfs.FS {
	named := func(part string) func(string) bool {
		return func(name string) bool { return strings.Contains(filepath.Base(name), part) }
	}
	switch p.w.plan.Mutant {
	case LogNotSynced:
		return &lying{FS: fsys, unsynced: func(name string) bool { return named("log.")(name) || named("reserve")(name) }}
	case EpochsNotSynced:
		return &lying{FS: fsys, unsynced: named("Epoch")}
	case DirsNotSynced:
		return &lying{FS: fsys, dirs: true}
	case SyncErrorIgnored:
		return &lying{FS: fsys, blind: true}
	case ReadErrorIsTheEnd:
		return deaf{fsys}
	case MarkIgnored:
		return unmarked{fsys}
	case DurableFromMemory:
		return &lying{FS: fsys, unwritten: named("log.")}
	}
	return fsys
}

// unmarked is a file system that hides how much of a log was synced.
type unmarked struct{ vfs.FS }

// Open implements vfs.FS.
func (u unmarked) Open(name string) (vfs.File, error) {
	if filepath.Base(name) == "synced" {
		return nil, fs.ErrNotExist
	}
	return u.FS.Open(name)
}

// mutateRecovery puts something that looks like a record into the torn end of a mutant's
// log.
func (p *process) mutateRecovery() error {
	dir := p.w.plan.logDir() + "/version-2"
	segments, err := txnlog.Segments(p.mem, dir)
	if err != nil || len(segments) == 0 || !p.w.is(DataTrusted) {
		return nil
	}
	newest := segments[len(segments)-1]
	r := txnlog.NewSegmentReader(p.mem, dir, newest, txnlog.ReadOptions{AllowGaps: true})
	defer r.Close()
	for err == nil {
		_, err = r.Next()
	}
	torn := r.Torn()
	if torn == nil {
		return nil
	}
	content, err := vfs.ReadFile(p.mem, torn.File, 1<<30)
	if err != nil || !strings.Contains(string(content[torn.Offset+1:]), lookAlike) {
		return err
	}
	return &vfs.Corruption{File: torn.File, Offset: torn.Offset, Expected: "no other record", Found: "one in its midst"}
}

// lookAlike is the common part of the records in clients' data: a length, and a session of
// 0.
const lookAlike = "\x00\x00\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00"

// lying is a file system that does not do everything that it reports.
type lying struct {
	vfs.FS
	unsynced  func(name string) bool // names of files that are not synced
	unwritten func(name string) bool // names of files that are not written when opened again
	dirs      bool                   // directories are not synced
	blind     bool                   // errors of syncs are not reported
}

// SyncDir implements vfs.FS.
func (l *lying) SyncDir(dir string) error {
	if l.dirs {
		return nil
	}
	return l.FS.SyncDir(dir)
}

// Create implements vfs.FS.
func (l *lying) Create(name string) (vfs.File, error) {
	f, err := l.FS.Create(name)
	return l.file(f, name, err, false)
}

// OpenReadWrite implements vfs.FS.
func (l *lying) OpenReadWrite(name string) (vfs.File, error) {
	f, err := l.FS.OpenReadWrite(name)
	return l.file(f, name, err, true)
}

func (l *lying) file(f vfs.File, name string, err error, again bool) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &lyingFile{
		File: f, blind: l.blind, unsynced: l.unsynced != nil && l.unsynced(name), unwritten: again && l.unwritten != nil && l.unwritten(name),
	}, nil
}

type lyingFile struct {
	vfs.File
	unsynced, unwritten, blind bool
}

func (f *lyingFile) Sync() error {
	if f.unsynced {
		return nil
	}
	err := f.File.Sync()
	if f.blind {
		return nil
	}
	return err
}

func (f *lyingFile) Write(p []byte) (int, error) {
	if f.unwritten {
		return len(p), nil
	}
	return f.File.Write(p)
}

func (f *lyingFile) WriteAt(p []byte, offset int64) (int, error) {
	if f.unwritten {
		return len(p), nil
	}
	return f.File.WriteAt(p, offset)
}

// keepOld replaces or truncates a history as a mutant does: what was there before comes
// back.
func (t *turns) keepOld(o *operation, do func() (*replica.Event, error)) (*replica.Event, error) {
	replaced := t.p.w.is(OldHistoryKept) && o.Kind == replica.DiskSaveSnapshot
	cut := t.p.w.is(SnapshotOutlivesRole) && o.Kind == replica.DiskTruncate
	if !replaced && !cut {
		return do()
	}
	old := map[string][]byte{}
	names, err := t.p.files()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		hex, isSnapshot := strings.CutPrefix(filepath.Base(name), "snapshot.")
		zxid, _ := strconv.ParseInt(hex, 16, 64)
		if isSnapshot && (replaced || zk.Zxid(zxid) <= o.Zxid) || replaced && strings.HasPrefix(filepath.Base(name), "log.") {
			content, err := vfs.ReadFile(t.p.mem, name, 1<<30)
			if err != nil {
				return nil, err
			}
			old[name] = content
		}
	}
	event, err := do()
	for _, name := range names {
		if content, was := old[name]; was && err == nil {
			if _, missing := t.p.mem.Stat(name); missing != nil {
				must(vfs.ReplaceFile(t.p.mem, name, name+".tmp", content))
			}
		}
	}
	return event, err
}

// files returns the files of the history: snapshots and the log.
func (p *process) files() ([]string, error) {
	var files []string
	for _, dir := range slices.Compact([]string{dataDir, p.w.plan.logDir()}) {
		dir += "/version-2"
		names, err := p.mem.List(dir)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			files = append(files, filepath.Join(dir, name))
		}
	}
	return files, nil
}
