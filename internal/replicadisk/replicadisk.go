// Package replicadisk carries out a replica's disk effects on a store: recovery, the log, the
// epochs, truncation or replacement of the history, snapshots.
//
// A Disk takes the operations that a replica asks for, and returns the events that answer them.
// Nothing here starts a goroutine or reads a clock: the server's disk goroutine drives a Disk,
// and so does the simulator, on a disk in memory.
//
// What always holds:
//
//	replicadisk-D1  An event is returned only when what it reports is durable.
//	replicadisk-D2  Any error is final, except that of a full disk: the server
//	                must stop, and recover. Nobody knows what the disk has.
//	replicadisk-D3  Where a snapshot replaces the history, it is durable before
//	                any part of the history is removed.
//
// The package decides nothing: when to take a snapshot, what to do about a full disk, and what
// to tell an operator is up to the server.
package replicadisk

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"sync/atomic"

	"github.com/conclave-project/conclave/internal/datadir"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/snap"
	"github.com/conclave-project/conclave/internal/txnlog"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// Options say where a server's data is and how it is kept.
type Options struct {
	Store         datadir.Options
	ExtendedTypes bool // TTL znodes exist
	Ensemble      bool // epochs are kept, and the newest records for learners
	RecentMax     int  // how many of these records; 0 is 500

	ReadBytesMax   int // how many bytes of the log a learner is sent at most; 0 is 64 MiB
	PartRecordsMax int // how many records of the log are read at a time, 2 or more; 0 is 8,192

	Loaded func() // called when a snapshot has been loaded, before the log is replayed; may be nil
}

// ofStore returns the options of the directory.
func (o *Options) ofStore() datadir.Options {
	store := o.Store
	store.Alone = !o.Ensemble
	return store
}

const recentMax = 500

// recentBytesMax bounds the records kept in memory at a start.
const recentBytesMax = 64 << 20

// Disk is a server's data directory with its open log. One goroutine uses it. ReadLog, and the
// snapshots of Begin, may be used concurrently.
type Disk struct {
	fs    vfs.FS
	opts  Options
	store *datadir.Store
	log   *txnlog.Log

	// gapAt is the last zxid at which replaying the log produced a different tree than the one
	// it was written with: an earlier record is missing. A disk may lose a write silently, and
	// what the record changed may have been changed again since. The tree is right then, but no
	// learner is sent that part of the log.
	gapAt atomic.Int64
}

// Found is the result of a recovery, for the replica and for the operator.
type Found struct {
	replica.Recovered
	Store         *datadir.Recovered
	Mismatches    int // how many digests differ
	FirstMismatch zk.Zxid
}

// Open opens and locks the directories. The caller calls Recover next.
func Open(fsys vfs.FS, opts Options) (*Disk, error) {
	if opts.RecentMax <= 0 {
		opts.RecentMax = recentMax
	}
	s, err := datadir.Open(fsys, opts.ofStore())
	if err != nil {
		return nil, err
	}
	return &Disk{fs: fsys, opts: opts, store: s}, nil
}

// Check reports what Open and Recover would do, and changes nothing. See datadir.Check.
func Check(fsys vfs.FS, opts Options) (*datadir.Report, error) {
	return datadir.Check(fsys, opts.ofStore(), func() datadir.Target { return NewTarget(opts) })
}

// Store returns the directory, for purging and reports.
func (d *Disk) Store() *datadir.Store { return d.store }

// Log returns the open log, for its space and for starting a new segment.
func (d *Disk) Log() *txnlog.Log { return d.log }

// There returns an error if the directories, or the files that are written next, have lost
// their names: no start would find what is written to them.
func (d *Disk) There() error {
	if err := d.store.There(); err != nil || d.log == nil {
		return err
	}
	return d.log.There()
}

// Close closes the log and unlocks the directories.
func (d *Disk) Close() error {
	err := d.closeLog()
	return errors.Join(err, d.store.Close())
}

func (d *Disk) closeLog() error {
	if d.log == nil {
		return nil
	}
	err := d.log.Close()
	d.log = nil
	return err
}

// Recover returns the state that the directory holds, and opens the log after it. Before that a
// new history gets its first snapshot, because a log without one is refused.
func (d *Disk) Recover() (*Found, error) {
	f, err := d.load()
	if err != nil {
		return nil, err
	}
	last := max(f.Store.Last, 0)
	f.Untrusted = f.Store.Last < 0 || f.Store.Rejoining
	f.Stored.Last = last
	f.Fuzzy = f.Store.Info.DigestZxid > last || f.Store.Target.(*Target).ahead
	if d.opts.Ensemble {
		epochs, err := d.store.LoadEpochs(last)
		if err != nil {
			return nil, err
		}
		f.Stored.Accepted, f.Stored.Current = epochs.Accepted, epochs.Current
		if f.Alone, err = d.store.Alone(); err != nil {
			return nil, err
		}
		f.Stored.Recent = d.recent(f)
	}
	if f.Store.Last < 0 || f.Store.Fresh || f.Store.NeedsSnapshot {
		s := Begin(f.State.Tree(), f.State.Leases())
		if _, err := s.Save(d.store, nil); err != nil {
			return nil, fmt.Errorf("first snapshot: %w", err)
		}
	}
	d.log, err = d.store.OpenLog(last)
	return f, err
}

// load reads snapshot and log.
func (d *Disk) load() (*Found, error) {
	if err := d.closeLog(); err != nil {
		return nil, err
	}
	found, err := d.store.Recover(func() datadir.Target { return NewTarget(d.opts) })
	if err != nil {
		return nil, err
	}
	t := found.Target.(*Target)
	f := &Found{Store: found, Mismatches: t.mismatches, FirstMismatch: t.firstMismatch}
	if f.Differs, err = d.differed(t); err != nil {
		return nil, err
	}
	gap := t.lastMismatch
	if f.Differs {
		gap = t.wrongBefore
	}
	if err := d.noteGap(gap); err != nil {
		return nil, err
	}
	f.State, f.WrongTree = t.State, t.wrong && !f.Differs
	return f, nil
}

// differed reports whether the tree differs in the same way as while the server ran: then
// nothing has been lost since. A note that does not match is removed.
func (d *Disk) differed(t *Target) (bool, error) {
	from, err := d.store.Differs()
	if err != nil || from == 0 {
		return false, err
	}
	if t.wrong && t.wrongFrom >= from {
		return true, nil
	}
	return false, d.store.NoteDiffers(0)
}

// noteGap stores what digests have shown about the log, now or at an earlier start.
func (d *Disk) noteGap(found zk.Zxid) error {
	noted, err := d.store.Gap()
	if err == nil && found > noted {
		noted, err = found, d.store.NoteGap(found)
	}
	d.gapAt.Store(int64(noted))
	if errors.Is(err, vfs.ErrNoSpace) {
		return nil // a start that replays the same log finds the gap again
	}
	return err
}

// noteDiffers stores where digests began to differ, if there is space for it. Without the note
// the next start assumes that its own tree is the wrong one.
func (d *Disk) noteDiffers(from zk.Zxid) error {
	if err := d.store.NoteDiffers(from); !errors.Is(err, vfs.ErrNoSpace) {
		return err
	}
	return nil
}

// recent reads the newest records of the log again, as many as are kept in memory. Without them
// learners are synchronized from the log on disk.
func (d *Disk) recent(f *Found) []zab.Record {
	after := f.Store.Target.(*Target).firstRecent()
	if after < 0 {
		return nil
	}
	after = max(after, zk.Zxid(d.gapAt.Load())-1)
	records, err := d.read(after, f.Stored.Last, recentBytesMax)
	if err != nil || len(records) == 0 || records[len(records)-1].Zxid != f.Stored.Last {
		return nil
	}
	// Only Apache's server counts on across an epoch; no leader does. The records before such a
	// place are not for learners: a learner that lacks them gets a snapshot.
	for i := len(records) - 1; i > 0; i-- {
		if records[i].Zxid.Epoch() != records[i-1].Zxid.Epoch() && records[i].Zxid.Counter() == 0 {
			return records[i:]
		}
	}
	return records
}

// Do carries out one operation. snapshot belongs to a DiskSaveSnapshot and was begun when the
// operation was issued. The event is nil if there is nothing to report.
func (d *Disk) Do(op *replica.DiskOp, snapshot *Snapshot) (*replica.Event, error) {
	done := &replica.Event{Kind: replica.EventDone, Ticket: op.Ticket}
	switch op.Kind {
	case replica.DiskAppend:
		return nil, d.log.Append(op.Zxid, op.Payload)
	case replica.DiskSync:
		return done, d.log.Sync()
	case replica.DiskSetAccepted:
		return done, d.setEpoch(d.store.SetAccepted, op.Epoch)
	case replica.DiskSetCurrent:
		return done, d.setEpoch(d.store.SetCurrent, op.Epoch)
	case replica.DiskTruncate:
		return d.truncate(op)
	case replica.DiskNoteDiffers:
		return done, d.noteDiffers(op.Zxid)
	case replica.DiskEndAlone:
		return done, d.store.EndAlone()
	case replica.DiskSaveSnapshot:
		return done, d.replace(op.Zxid, snapshot)
	}
	f, err := d.Recover() // DiskReload
	if err != nil {
		return nil, err
	}
	return &replica.Event{Kind: replica.EventRecovered, Recovered: &f.Recovered}, nil
}

// setEpoch stores an epoch. A standalone server keeps none, but the epochs of an ensemble that
// it was once in must not fall behind its history.
func (d *Disk) setEpoch(set func(uint32) error, epoch uint32) error {
	if !d.opts.Ensemble {
		return d.store.RaiseEpochs(epoch)
	}
	return set(epoch)
}

// truncate truncates the history after a zxid and reads what is left.
func (d *Disk) truncate(op *replica.DiskOp) (*replica.Event, error) {
	if err := d.store.MayGiveUp(op.Zxid, d.log.Last()); err != nil {
		return nil, err
	}
	last := d.log.Last()
	if err := d.closeLog(); err != nil {
		return nil, err
	}
	if err := d.store.Truncate(op.Zxid); errors.Is(err, datadir.ErrNeedSnapshot) {
		// Nothing has changed. The server reads its directory again before it goes on; a reader
		// of the log needs an open one until then.
		d.log, err = d.store.OpenLog(last)
		return &replica.Event{Kind: replica.EventFailed, Ticket: op.Ticket}, err
	} else if err != nil {
		return nil, err
	}
	f, err := d.load()
	if err != nil {
		return nil, err
	}
	if f.Store.Last != op.Zxid {
		return nil, fmt.Errorf("the history was truncated after %s, but ends at %s", op.Zxid, f.Store.Last)
	}
	if d.log, err = d.store.OpenLog(op.Zxid); err != nil {
		return nil, err
	}
	return &replica.Event{Kind: replica.EventDone, Ticket: op.Ticket, State: f.State}, nil
}

// replace makes a leader's state the whole history (replicadisk-D3). If it finds no space it
// can be repeated.
func (d *Disk) replace(zxid zk.Zxid, s *Snapshot) error {
	if err := d.store.MayGiveUp(0, d.log.Last()); err != nil {
		return err
	}
	s.ahead = true
	if _, err := s.Save(d.store, nil); err != nil {
		return err
	}
	if err := d.closeLog(); err != nil {
		return err
	}
	if err := d.store.Replace(zxid); err != nil {
		return err
	}
	var err error
	d.log, err = d.store.OpenLog(zxid)
	return err
}

// readBytesMax bounds what is read from the log for one learner: beyond it a snapshot is
// better.
const readBytesMax = 64 << 20

// A part of the log for a learner ends with the record that reaches one of these limits,
// because a part is sent in one step.
const (
	partRecordsMax = 8192
	partBytesMax   = 4 << 20
)

// ReadLog reads the log for a learner whose last record is zxid: from the newest record that is
// not after zxid up to the record to. It may return only a part of that, and then more is true.
// ok is false if the log does not hold all of it, or holds too much. It may run concurrently
// with everything else.
func (d *Disk) ReadLog(zxid, to zk.Zxid) (records []zab.Record, more, ok bool) {
	if zxid < zk.Zxid(d.gapAt.Load()) {
		return nil, false, false
	}
	segments, err := txnlog.Segments(d.fs, d.store.LogDir())
	if err != nil {
		return nil, false, false
	}
	from := zk.NoZxid
	for _, s := range segments {
		if s.First <= zxid {
			from = s.First
		}
	}
	if from == zk.NoZxid {
		return nil, false, false
	}
	part := part{place: zxid, recordsMax: cmp.Or(d.opts.PartRecordsMax, partRecordsMax), bytesMax: partBytesMax}
	if err := d.readFrom(from-1, to, cmp.Or(d.opts.ReadBytesMax, readBytesMax), &part); err != nil {
		return nil, false, false
	}
	return part.records, part.more, len(part.records) > 0
}

// read returns the records after one zxid up to another.
func (d *Disk) read(after, to zk.Zxid, bytesMax int) ([]zab.Record, error) {
	part := part{place: zk.NoZxid, recordsMax: math.MaxInt, bytesMax: math.MaxInt}
	err := d.readFrom(after, to, bytesMax, &part)
	return part.records, err
}

// errTooMuch is the error if the log has more than is wanted.
var errTooMuch = errors.New("more records than are wanted")

// part is the first part of what is read: the last of the records that are not after place, and
// at least one more.
type part struct {
	place                zk.Zxid
	recordsMax, bytesMax int
	records              []zab.Record
	bytes                int
	more                 bool // the log has more than this part
}

func (p *part) add(r *txnlog.Record) {
	if r.Zxid <= p.place {
		p.records, p.bytes = p.records[:0], 0
	}
	if len(p.records) > 1 && (len(p.records) >= p.recordsMax || p.bytes >= p.bytesMax) {
		p.more = true
		return
	}
	p.bytes += len(r.Payload)
	p.records = append(p.records, zab.Record{Zxid: r.Zxid, Payload: bytes.Clone(r.Payload)})
}

// readFrom reads the records after a zxid up to another, with payloads of at most bytesMax
// bytes in total.
func (d *Disk) readFrom(after, to zk.Zxid, bytesMax int, part *part) error {
	reader, err := d.store.ReadLog(after)
	if err != nil {
		return err
	}
	defer reader.Close()
	sum := 0
	for {
		record, err := reader.Next()
		if err == io.EOF || err == nil && record.Zxid > to {
			return nil
		}
		if err != nil {
			return err
		}
		if record.Zxid <= part.place {
			sum = 0
		}
		if sum += len(record.Payload); sum > bytesMax {
			return errTooMuch
		}
		part.add(&record)
	}
}

// LoadStream reads the state that a leader sends after a SNAP. The replica, which knows the
// zxid, finishes it.
func LoadStream(r io.Reader, opts Options) (*replica.State, error) {
	s := replica.NewState(opts.ExtendedTypes)
	_, err := snap.LoadStream(r, "the leader's snapshot", snap.Options{BufferBytesMax: opts.Store.BufferBytesMax}, s)
	if err != nil {
		return nil, err
	}
	return s, nil
}
