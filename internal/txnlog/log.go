// Package txnlog keeps transactions in ZooKeeper's append-only log files.
//
// A Log takes payloads with their zxids, in the order of the history. Sync makes them durable:
// everything since the last Sync with one flush. A Reader returns the records in order, each of
// them checked. Recovery distinguishes a torn end, which a crash leaves and which was never
// acknowledged, from corruption, which is refused with file, offset and remedy.
//
// What always holds, by number, so that code and tests can name it:
//
//	txnlog-L1  After Sync returned nil, every record given before survives any
//	           crash.
//	txnlog-L2  The zxids in the files grow, and a record that does not follow
//	           its predecessor is refused when it is given.
//	txnlog-L3  After an error a Log writes nothing more: no record can come
//	           after a partial one.
//	txnlog-L4  A segment that is no longer the newest is synced and holds no
//	           torn end.
//	txnlog-L5  What is unsynced at any moment is at most unsyncedBytesMax and
//	           one record, so that recovery knows how far a crash can reach.
//	txnlog-L6  While Ready returns nil, SpaceBytes can be appended on a disk
//	           that is full to the last byte, where the file system writes in
//	           place (vfs-V4). Where it does not, records wait, and nothing is lost.
//	txnlog-L7  Everything that the file "synced" lists as synced is synced: the
//	           file is written after the sync, and removed before anything is
//	           truncated (mark.go).
//	txnlog-L8  A Reader returns no record after a gap. Between two epochs a gap
//	           shows in the head of a segment, or by a snapshot beside the log.
//
// The package knows nothing about a transaction except its zxid. It starts no goroutine and
// reads no clock.
package txnlog

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/conclave-project/conclave/internal/invariant"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// ErrGap is the error for a record that does not follow its predecessor.
var ErrGap = errors.New("transaction does not follow the last one")

// ErrClosed is the error of every call after Close.
var ErrClosed = errors.New("transaction log is closed")

const (
	// unsyncedBytesMax is the limit beyond which Append syncs by itself (txnlog-L5).
	unsyncedBytesMax = 4 << 20
	// flushBytes is the size of the portions in which records are written to the file.
	flushBytes = 256 << 10
	// headroomBytesMax is the maximum space that Ready keeps ahead. With smaller preallocations
	// it keeps a quarter of one.
	headroomBytesMax = 16 << 20
)

// PreallocBytesMax is the maximum space that is allocated at a time. A start after a crash
// reads that space, some file systems write zeros into it, and a disk with less space left
// would count as full.
const PreallocBytesMax = 256 << 20

// Options of a log; the zero value is usable and preallocates nothing.
type Options struct {
	PreallocBytes   int64 // space allocated at a time (zookeeper.preAllocSize, there in KiB), up to PreallocBytesMax; 0 or less: none ahead
	SegmentBytesMax int64 // a larger segment is followed by a new one (txnLogSizeLimitInKb); 0 or less: no limit
	PayloadBytesMax int   // 0: PayloadBytesMax; must never be lower than an earlier value
	NoSync          bool  // forceSync=no: nothing is durable, txnlog-L1 does not hold
}

func (o Options) payloadBytesMax() int {
	if o.PayloadBytesMax <= 0 {
		return PayloadBytesMax
	}
	return o.PayloadBytesMax
}

func (o Options) headroomBytes() int64 { return min(o.PreallocBytes/4, headroomBytesMax) }

// Log writes the transaction log in one directory. One goroutine uses it.
type Log struct {
	fs      vfs.FS
	dir     string
	options Options
	err     error // the first error; final (txnlog-L3)

	last   zk.Zxid // zxid of the last record given
	synced zk.Zxid // zxid of the last record that is durable

	file      vfs.File // the open segment, nil until the first record
	name      string
	position  int64  // end of what was written to file
	allocated int64  // end of the space allocated for file
	buffer    []byte // records that come after position
	unsynced  int64  // bytes given since the last Sync
	dirDirty  bool   // the name of file is not durable yet
	roll      bool   // the next record begins a new segment

	reserve  vfs.File // the next segment, prepared; nil when there is none
	reserved int64    // space allocated in it for records

	first zk.Zxid  // first zxid of the open segment, as in its name
	mark  vfs.File // the file that says how much of it is synced; nil when there is none
}

// Open prepares dir for records that follow last, the zxid up to which recovery has read
// (negative or 0 for none). It never appends to an existing segment: the first record begins a
// new one.
func Open(fsys vfs.FS, dir string, last zk.Zxid, options Options) (*Log, error) {
	// A reserve from an earlier run may hold records that were never acknowledged; its space is
	// allocated again.
	err := fsys.Remove(filepath.Join(dir, reserveName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open transaction log in %s: %w", dir, err)
	}
	options.PreallocBytes = min(options.PreallocBytes, PreallocBytesMax)
	return &Log{fs: fsys, dir: dir, options: options, last: last, synced: last}, nil
}

// Last returns the zxid of the last record given to Append.
func (l *Log) Last() zk.Zxid { return l.last }

// Synced returns the zxid of the last record that Sync made durable.
func (l *Log) Synced() zk.Zxid { return l.synced }

// Err returns the error after which the log refuses everything, or nil.
func (l *Log) Err() error { return l.err }

// Append adds one record to the log. The payload is copied. It must contain zxid, and zxid must
// follow Last. After an error that is vfs.ErrNoSpace and is not Err, the record was not added
// and may be given again. Any other error is final.
func (l *Log) Append(zxid zk.Zxid, payload []byte) error {
	if l.err != nil {
		return l.err
	}
	if err := l.check(zxid, payload); err != nil {
		return l.fail(fmt.Errorf("append %s: %w", zxid, err))
	}
	need := int64(len(payload)) + recordFrameBytes
	if err := l.takeIn(zxid, need); err != nil {
		return l.failUnlessFull(fmt.Errorf("append %s: %w", zxid, err))
	}
	invariant.Check(l.unsynced <= unsyncedBytesMax, "txnlog: more is unsynced than recovery allows for (txnlog-L5)")
	invariant.Check(zxid > l.last && zxid > l.synced, "txnlog: a record in front of one that is there (txnlog-L2)")
	l.buffer = appendRecord(l.buffer, payload)
	l.unsynced += need
	l.last = zxid
	invariant.Check(l.end() <= l.allocated || l.options.PreallocBytes <= 0, "txnlog: a record in space that was not taken (txnlog-L6)")
	return nil
}

// takeIn makes space for a record of need bytes, in memory and on the disk.
func (l *Log) takeIn(zxid zk.Zxid, need int64) error {
	if l.unsynced > unsyncedBytesMax {
		if err := l.Sync(); err != nil {
			return err
		}
	}
	if len(l.buffer) >= flushBytes {
		if err := l.flush(); err != nil {
			return err
		}
	}
	if l.file == nil || l.roll || l.overSize() {
		if err := l.begin(zxid, need); err != nil {
			return err
		}
	}
	if l.options.PreallocBytes > 0 && l.end()+need > l.allocated {
		return l.extend(l.end() + need)
	}
	return nil
}

func (l *Log) check(zxid zk.Zxid, payload []byte) error {
	if len(payload) < payloadBytesMin || len(payload) > l.options.payloadBytesMax() {
		return fmt.Errorf("payload of %d bytes, must be %d to %d",
			len(payload), payloadBytesMin, l.options.payloadBytesMax())
	}
	if inside := payloadZxid(payload); inside != zxid {
		return fmt.Errorf("payload carries %s", inside)
	}
	if !Follows(l.last, zxid) || zxid.Counter() == 0 { // only Apache's server writes a counter of 0; no leader sends one
		return fmt.Errorf("%w: last is %s", ErrGap, l.last)
	}
	return nil
}

// Sync makes every record given so far durable. Without new records it does nothing. After an
// error that is vfs.ErrNoSpace and is not Err, records wait in memory for space, and Sync may
// be called again: a file system that copies on write needs space even to write over what it
// has allocated. Any other error is final: after a failed sync nobody knows what is on the
// disk, so a second attempt would prove nothing.
func (l *Log) Sync() error {
	if l.err != nil {
		return l.err
	}
	if l.unsynced == 0 {
		return nil
	}
	if err := l.flush(); err != nil {
		return err
	}
	if err := l.sync(); err != nil {
		return l.fail(fmt.Errorf("sync %s: %w", l.name, err))
	}
	if err := l.noteSynced(); err != nil {
		return l.fail(fmt.Errorf("note that %s is synced: %w", l.name, err))
	}
	invariant.Check(len(l.buffer) == 0 && !l.dirDirty || l.options.NoSync, "txnlog: synced with something left in memory (txnlog-L1)")
	l.unsynced = 0
	l.synced = l.last
	return nil
}

// sync makes the open segment durable: first its content, then its name.
func (l *Log) sync() error {
	if l.options.NoSync {
		return nil
	}
	if err := l.file.Sync(); err != nil {
		return err
	}
	if l.dirDirty {
		if err := l.fs.SyncDir(l.dir); err != nil {
			return err
		}
		l.dirDirty = false
	}
	return nil
}

func (l *Log) flush() error {
	if len(l.buffer) == 0 {
		return nil
	}
	invariant.Check(l.err == nil, "txnlog: writes after a failure (txnlog-L3)")
	n, err := l.file.Write(l.buffer)
	l.position += int64(n)
	l.buffer = l.buffer[:copy(l.buffer, l.buffer[n:])] // the rest waits for space
	if err != nil {
		return l.failUnlessFull(fmt.Errorf("write %s at offset %d: %w", l.name, l.position, err))
	}
	return nil
}

// Roll asks for a new segment, which the next record begins. On a full disk the log stays in
// the old segment while that has space.
func (l *Log) Roll() { l.roll = l.file != nil }

// Reset sets the end of the history to last, because a snapshot replaced what was there. The
// next record begins a new segment and follows last.
func (l *Log) Reset(last zk.Zxid) error {
	if err := l.Sync(); err != nil {
		return err
	}
	l.closeMark()
	if err := dropMark(l.fs, l.dir); err != nil {
		return l.fail(err)
	}
	l.last, l.synced = last, last
	l.Roll()
	return nil
}

// Close syncs, releases the unused space and closes the log, which cannot be used any more. It
// returns the error that ended the log earlier, if there was one.
func (l *Log) Close() error {
	if errors.Is(l.err, ErrClosed) {
		return nil
	}
	err := l.Sync()
	if err == nil && l.file != nil {
		if err = l.retire(); err == nil {
			err = l.noteAtEnd()
		}
	}
	if l.file != nil {
		_ = l.file.Close()
	}
	l.closeMark()
	l.dropReserve()
	l.file, l.err = nil, ErrClosed
	return err
}

// fail records the first error; later ones only follow from it.
func (l *Log) fail(err error) error {
	if l.err != nil {
		return l.err
	}
	l.err = fmt.Errorf("transaction log: %w", err)
	return l.err
}

// failUnlessFull records an error that is final. All errors are, except that of a full disk
// before a sync, which leaves the log as it was.
func (l *Log) failUnlessFull(err error) error {
	if errors.Is(err, vfs.ErrNoSpace) && l.err == nil {
		return err
	}
	return l.fail(err)
}

// end is the offset of the next record.
func (l *Log) end() int64 { return l.position + int64(len(l.buffer)) }

func (l *Log) overSize() bool {
	return l.options.SegmentBytesMax > 0 && l.end() > l.options.SegmentBytesMax
}
