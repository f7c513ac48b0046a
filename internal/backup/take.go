package backup

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/conclave-project/conclave/internal/datadir"
	"github.com/conclave-project/conclave/internal/snap"
	"github.com/conclave-project/conclave/internal/txnlog"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// Source is the data of a server, which may be running.
type Source struct {
	FS              vfs.FS
	SnapDir, LogDir string // the directories version-2
	BufferBytesMax  int    // longest path or data allowed in a snapshot; 0: ZooKeeper's default
	PayloadBytesMax int    // longest record allowed in the log; 0: ZooKeeper's default

	// Committed returns a zxid up to which everything in the log is committed, or AllCommitted
	// for everything in it. It is called after the files were listed, so what the snapshots
	// contain is at or below it.
	Committed func(context.Context) (zk.Zxid, error)
	Now       func() time.Time
}

// AllCommitted says that everything in the log is committed: the server is stopped.
const AllCommitted = maxZxid

// Options say what to take.
type Options struct {
	// Snapshot takes a whole snapshot even if the log alone would be enough.
	Snapshot bool
	// SnapshotEvery takes a snapshot when the newest one is older than this; 0: only when one
	// is needed.
	SnapshotEvery time.Duration
}

// Taken is what Take has added.
type Taken struct {
	Snapshot     string // the name of a new snapshot
	Logs         []string
	Transactions int
	Bytes        int64   // as stored
	Last         zk.Zxid // the end of the backup
	// Gap is set if the log that would continue the backup was purged, or is missing on the
	// server because its leader has sent it a later state. No state between the end of what was
	// there and the new snapshot can be restored.
	Gap bool
	// Committed is not 0 if the server says that more is committed than its log has. That part
	// is in no backup; the log may be in another directory.
	Committed zk.Zxid
}

// logBytesMax is the maximum size of a piece of the log, in bytes before compression, not
// counting its last record: a piece is held in memory.
const logBytesMax = 16 << 20

// tries is how often Take tries when a file was purged meanwhile, or looked damaged because it
// was being written.
const tries = 4

// Take adds what is new: the log since the last piece, and a snapshot if one is wanted or the
// log does not reach back far enough. If the log contradicts the backup, it returns
// ErrOtherHistory and adds nothing. Only one Take of a place runs at a time, if the place can
// ensure that.
func (b *Backup) Take(ctx context.Context, s Source, o Options) (Taken, error) {
	var taken Taken
	for try := 1; ; try++ {
		t := taking{Backup: b, ctx: ctx, source: s, options: o, taken: taken}
		err := t.run()
		taken = t.taken
		again := errors.Is(err, fs.ErrNotExist) || vfs.IsCorruption(err)
		if !again || try == tries {
			return taken, err
		}
		if err := b.reread(ctx); err != nil {
			return taken, err
		}
	}
}

// taking is one call of Take.
type taking struct {
	*Backup
	ctx     context.Context
	source  Source
	options Options
	taken   Taken

	snapshots []snap.File // of the source, newest first
	segments  []txnlog.Segment
	committed zk.Zxid
}

func (t *taking) run() error {
	if err := t.look(); err != nil {
		return err
	}
	from, at, known := t.end()
	if known && t.committed < from {
		t.taken.Last = from
		return t.behind()
	}
	reach, err := t.reach(from, at, known)
	if err != nil {
		return err
	}
	for state := zk.NoZxid; ; {
		if reach == notReached {
			if from, reach, err = t.begin(from, known, state); err != nil {
				return err
			}
		}
		if state, err = t.takeLog(from, reach); err != nil {
			return err
		}
		if state == zk.NoZxid {
			break
		}
		from, reach, known = t.taken.Last, notReached, true
	}
	if t.taken.Committed = 0; isTransaction(t.committed) && t.taken.Last < t.committed {
		t.taken.Committed = t.committed
	}
	// The snapshot comes last, because the next take continues from the newest snapshot: if
	// this take ended between the two, the log that leads to that snapshot would be missing.
	if t.snapshotDue() {
		if _, err := t.takeSnapshot(false, zk.NoZxid); err != nil {
			return err
		}
	}
	return t.reread(t.ctx)
}

// begin takes a snapshot, of least or later, if the log does not continue what is there, and
// finds the place of that snapshot in the log.
func (t *taking) begin(end zk.Zxid, known bool, least zk.Zxid) (zk.Zxid, reached, error) {
	base, err := t.takeSnapshot(true, least)
	if err != nil {
		return 0, 0, err
	}
	t.taken.Gap = t.taken.Gap || known && base > end && base != restoredAt(t.pieces.newest())
	reach, err := t.reach(base, time.Time{}, true)
	return base, reach, err
}

// look lists what the server has, and then asks how much of it is committed.
func (t *taking) look() (err error) {
	s := &t.source
	if err := datadir.CheckLogDir(s.FS, s.SnapDir, s.LogDir); err != nil {
		return err
	}
	if err := datadir.CheckOneHistory(s.FS, s.SnapDir); err != nil {
		return err
	}
	if t.snapshots, err = snap.Files(s.FS, s.SnapDir); err != nil {
		return err
	}
	if t.segments, err = txnlog.Segments(s.FS, s.LogDir); err != nil {
		return fmt.Errorf("list logs: %w", err)
	}
	if t.committed, err = s.Committed(t.ctx); err != nil {
		return fmt.Errorf("what is committed: %w", err)
	}
	if t.committed == AllCommitted {
		t.committed, err = t.last()
		return err
	}
	newest := t.newestSnapshot()
	if len(t.segments) == 0 && isTransaction(t.committed) && transactions(newest, t.committed) > inFlightMax {
		return fmt.Errorf("%s has no log, but the server has committed %s, far beyond its newest snapshot, %s: the log is in another directory",
			s.LogDir, t.committed, newest)
	}
	return nil
}

// inFlightMax is how many transactions a server without a log may have committed: its first log
// may still be about to be written.
const inFlightMax = 1000

// transactions returns the minimum number of transactions between two zxids.
func transactions(from, to zk.Zxid) int64 {
	switch {
	case to <= from:
		return 0
	case to.Epoch() == from.Epoch():
		return int64(to - from)
	}
	return int64(to.Counter())
}

func (t *taking) newestSnapshot() zk.Zxid {
	if len(t.snapshots) == 0 {
		return zk.NoZxid
	}
	return t.snapshots[0].Zxid
}

// isTransaction reports whether a zxid is that of a transaction: Apache's leader begins with
// one that is not.
func isTransaction(zxid zk.Zxid) bool { return zxid.Counter() > 0 }

// snapshotDue reports whether a snapshot is wanted although the log would be enough.
func (t *taking) snapshotDue() bool {
	snapshots := t.pieces.snapshots()
	if t.taken.Snapshot != "" || len(snapshots) == 0 {
		return false // an earlier try has taken one; without any the log continues nothing
	}
	if t.options.Snapshot {
		return true
	}
	newest, every := snapshots[len(snapshots)-1], t.options.SnapshotEvery
	age := t.source.Now().Sub(newest.time)
	old := age >= every || age <= -every // the second case is that of a wrong clock: the snapshot might not get old for years
	return every > 0 && old && len(t.snapshots) > 0 && t.snapshots[0].Zxid > newest.first
}

// takeSnapshot copies the newest whole snapshot and returns its zxid. In a new backup, or after
// a gap (goesOn), it prefers one after which the log goes on. Snapshots before least are
// ignored. The last record of the log shows the next take which history it is.
func (t *taking) takeSnapshot(goesOn bool, least zk.Zxid) (zk.Zxid, error) {
	var damaged error
	files := t.snapshots
	if goesOn && len(files) > 1 && t.endsLog(files[0].Zxid) {
		files = append(slices.Clone(files[1:]), files[0])
	}
	for _, file := range files {
		if file.Zxid < least || file.Zxid > t.committed {
			continue
		}
		base, err := t.copySnapshot(file)
		if err == nil || !vfs.IsCorruption(err) {
			return base, err
		}
		damaged = errors.Join(damaged, err)
	}
	if damaged != nil {
		return 0, damaged
	}
	return 0, fmt.Errorf("no snapshot in %s has only committed transactions (up to %s)", t.source.SnapDir, t.committed)
}

// endsLog reports whether the log has the record of a zxid, and no committed record after it.
func (t *taking) endsLog(zxid zk.Zxid) bool {
	reader, err := t.read(zxid-1, true)
	if err != nil {
		return false
	}
	defer reader.Close()
	if record, err := reader.Next(); err != nil || record.Zxid != zxid {
		return false
	}
	record, err := reader.Next()
	return err != nil || record.Zxid > t.committed
}

// copySnapshot reads a snapshot twice, because the name of the copy says what is in it.
func (t *taking) copySnapshot(file snap.File) (zk.Zxid, error) {
	s := &t.source
	options := snap.Options{BufferBytesMax: s.BufferBytesMax}
	info, err := snap.Verify(s.FS, s.SnapDir, file, options)
	if err != nil {
		return 0, err
	}
	piece := newPiece(false, file.Zxid, t.exactFrom(file, &info), s.Now())
	err = t.place.Put(t.ctx, piece.name, func(w io.Writer) error {
		counted := &counter{w: w}
		packed := gzip.NewWriter(counted)
		copied := &copying{encoder: snap.NewEncoder(packed), sessions: info.Sessions, acls: info.ACLs}
		again, err := snap.LoadFile(s.FS, s.SnapDir, file, options, copied)
		if err != nil {
			return err
		}
		if again != info { // the name describes the content of the first reading
			return fmt.Errorf("it was overwritten meanwhile: %w", fs.ErrNotExist)
		}
		if err := copied.end(&info); err != nil {
			return err
		}
		err = packed.Close()
		t.taken.Bytes += counted.n
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("copy %s: %w", filepath.Join(s.SnapDir, file.Name), err)
	}
	t.taken.Snapshot = piece.name
	return file.Zxid, nil
}

// exactFrom returns the zxid from which on a snapshot has nothing later than the log up to
// there. A snapshot that came from a leader does not say how far it is ahead; what is committed
// by now is beyond that.
func (t *taking) exactFrom(file snap.File, info *snap.Info) zk.Zxid {
	if info.Digest.Version == 0 || info.Last < 0 || info.DigestZxid == 0 && file.Zxid > 0 {
		return max(file.Zxid, t.committed)
	}
	return max(file.Zxid, info.DigestZxid, info.Last)
}

// copying is a snap.Sink that writes the same content again.
type copying struct {
	encoder        *snap.Encoder
	sessions, acls int
	begun          bool
}

func (c *copying) begin() {
	if !c.begun {
		c.begun = true
		_ = c.encoder.Begin(c.sessions, c.acls) // the encoder keeps its error
	}
}

// Session implements snap.Sink.
func (c *copying) Session(id zk.SessionID, timeoutMs int32) error {
	c.begin()
	return c.encoder.Session(id, timeoutMs)
}

// ACL implements snap.Sink.
func (c *copying) ACL(id int64, entries []zk.ACL) error {
	c.begin()
	return c.encoder.ACL(id, entries)
}

// Node implements snap.Sink.
func (c *copying) Node(path string, data []byte, acl int64, stat zk.StatPersisted) error {
	c.begin()
	return c.encoder.Node(path, data, acl, &stat)
}

func (c *copying) end(info *snap.Info) error {
	c.begin()
	return c.encoder.End(info.DigestZxid, info.Digest, info.Last)
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// takeLog copies the log from the record at from, or from the one after it, as far as it
// continues that record. Each piece begins with the last record of the one before. state is the
// leader's state that ends the log, as returned by goesTo.
func (t *taking) takeLog(from zk.Zxid, reach reached) (state zk.Zxid, err error) {
	t.taken.Last = from
	if reach == nothingNew {
		return zk.NoZxid, nil
	}
	until, state, err := t.goesTo(from)
	if err != nil {
		return state, err
	}
	after := from
	if reach == withRecord {
		after--
	}
	reader, err := t.read(after, false)
	if err != nil {
		return state, err
	}
	defer reader.Close()
	p := packing{from: from}
	for last := from; last < until; {
		record, err := reader.Next()
		if err != nil && err != io.EOF {
			return state, err
		}
		if err == io.EOF || record.Zxid > until {
			break
		}
		if p.full() {
			if err := t.putLog(&p); err != nil {
				return state, err
			}
			last := p.records[len(p.records)-1]
			p = packing{from: last.zxid, records: []packed{last}}
		}
		p.add(&record)
		last = record.Zxid
	}
	return state, t.putLog(&p)
}

// packing collects the records of one piece of the log.
type packing struct {
	from    zk.Zxid // the piece has all records after this one
	records []packed
	bytes   int
}

type packed struct {
	zxid    zk.Zxid
	payload []byte
}

func (p *packing) add(r *txnlog.Record) {
	p.records = append(p.records, packed{r.Zxid, bytes.Clone(r.Payload)})
	p.bytes += len(r.Payload)
}

func (p *packing) full() bool { return p.bytes >= logBytesMax && len(p.records) > 1 }

// putLog writes a piece of the log, unless it has nothing that the piece before does not have.
func (t *taking) putLog(p *packing) error {
	n := len(p.records)
	if n == 0 || p.records[n-1].zxid <= t.taken.Last {
		return nil
	}
	last := p.records[n-1]
	at, err := recordTime(&txnlog.Record{Payload: last.payload, File: last.zxid.String()})
	if err != nil {
		return err
	}
	segment, err := t.segment(p)
	if err != nil {
		return err
	}
	piece := newPiece(true, p.from, last.zxid, at)
	err = t.place.Put(t.ctx, piece.name, func(w io.Writer) error {
		_, err := w.Write(segment)
		return err
	})
	if err != nil {
		return fmt.Errorf("copy the log after %s: %w", p.from, err)
	}
	t.taken.Transactions += n
	if p.records[0].zxid == p.from { // the first record is the last one of the piece before
		t.taken.Transactions--
	}
	t.taken.Logs = append(t.taken.Logs, piece.name)
	t.taken.Bytes += int64(len(segment))
	t.taken.Last = last.zxid
	return nil
}

// segment returns the records as a compressed file of the log.
func (t *taking) segment(p *packing) ([]byte, error) {
	var file bytes.Buffer
	packed := gzip.NewWriter(&file)
	w := txnlog.NewWriter(packed)
	for _, r := range p.records {
		if err := w.Write(r.payload); err != nil {
			return nil, err
		}
	}
	err := packed.Close()
	return file.Bytes(), err
}
