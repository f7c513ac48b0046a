package txnlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/conclave-project/conclave/internal/invariant"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// The disk must not turn out to be full for a record that already has its zxid, because such a
// record cannot be withdrawn. So space is allocated ahead of need. The open segment is
// allocated in steps, and the next step is allocated while a quarter of one is still free. The
// next segment is prepared, allocated and synced under the name "reserve" before its first
// record comes.
//
//	admission:  Ready() == nil ?  accept writes : refuse them, reads go on
//	disk:       Append, Append, Sync  ->  acknowledge  ->  Ready
//
// While the disk is full, Ready returns an error and tries again at each call; records that are
// on their way still find SpaceBytes.

// Ready allocates space ahead of need and returns nil when there is enough. On a full disk it
// returns an error that is vfs.ErrNoSpace, and may be called again at any time; any other error
// is final. Call it before the first record, and after each Sync when its records have been
// acknowledged.
func (l *Log) Ready() error {
	if l.err != nil {
		return l.err
	}
	if l.reserve == nil && (l.file == nil || l.roll || l.overSize()) {
		err := l.makeReserve()
		if err != nil && !errors.Is(err, vfs.ErrNoSpace) {
			return l.fail(err)
		}
		if err != nil && l.file == nil {
			return l.noSpace(err)
		}
	}
	if l.options.PreallocBytes <= 0 || l.file == nil || l.allocated-l.end() >= l.options.headroomBytes() {
		return nil
	}
	err := l.extend(l.end() + l.options.headroomBytes())
	if err == nil || (l.reserve != nil && errors.Is(err, vfs.ErrNoSpace)) {
		return nil
	}
	if !errors.Is(err, vfs.ErrNoSpace) {
		return l.fail(err)
	}
	return l.noSpace(err)
}

// noSpace says how much space the log wants: on a disk smaller than that, other tools report
// that the disk is empty.
func (l *Log) noSpace(err error) error {
	if ahead := l.options.PreallocBytes; ahead > 0 {
		return fmt.Errorf("no space for the transaction log in %s, which takes %d KiB ahead (preAllocSize): %w", l.dir, ahead>>10, err)
	}
	return fmt.Errorf("no space for the transaction log in %s: %w", l.dir, err)
}

// SpaceBytes returns how many bytes of records, each with its frame of 13 bytes, can be
// appended without asking the disk for space. Without preallocation it is 0.
func (l *Log) SpaceBytes() int64 {
	if l.options.PreallocBytes <= 0 {
		return 0
	}
	if l.reserve != nil {
		return l.reserved
	}
	return max(l.allocated-l.end(), 0)
}

// Reserve allocates space for n bytes of records, counted as in SpaceBytes, if that is more
// than Ready keeps: a record may be longer than a step. An error that is vfs.ErrNoSpace is not
// final. Without preallocation it does nothing.
func (l *Log) Reserve(n int64) error {
	if l.err != nil || l.options.PreallocBytes <= 0 || l.SpaceBytes() >= n {
		return l.err
	}
	var err error
	if l.reserve == nil && l.file == nil {
		err = l.makeReserve()
	}
	switch {
	case err != nil:
	case l.reserve != nil:
		if err = l.reserve.Allocate(segmentHeadBytes + n); err == nil {
			l.reserved = n
		}
	default:
		err = l.extend(l.end() + n)
	}
	if err != nil && !errors.Is(err, vfs.ErrNoSpace) {
		return l.fail(err)
	}
	return err
}

// extend allocates space in whole steps until the segment has end bytes.
func (l *Log) extend(end int64) error {
	size := l.allocated
	for size < end {
		size += l.options.PreallocBytes
	}
	if err := l.file.Allocate(size); err != nil {
		return fmt.Errorf("allocate %s to %d bytes: %w", l.name, size, err)
	}
	l.allocated = size
	return nil
}

// makeReserve writes the next segment without records and syncs it, so that its head and its
// length are on disk before it gets its name.
func (l *Log) makeReserve() error {
	file, err := l.fs.Create(filepath.Join(l.dir, reserveName))
	if err != nil {
		return fmt.Errorf("create the next segment: %w", err)
	}
	l.reserve, l.reserved = file, max(l.options.PreallocBytes, 0)
	_, err = file.Write(segmentHead())
	if err == nil && l.options.PreallocBytes > 0 {
		err = file.Allocate(segmentHeadBytes + l.options.PreallocBytes)
	}
	if err == nil && !l.options.NoSync {
		err = file.Sync()
	}
	if err != nil {
		l.dropReserve()
		return fmt.Errorf("prepare the next segment: %w", err)
	}
	return nil
}

func (l *Log) dropReserve() {
	if l.reserve == nil {
		return
	}
	_ = l.reserve.Close()
	l.reserve = nil
	// Best effort: Open removes a file that remains.
	_ = l.fs.Remove(filepath.Join(l.dir, reserveName))
}

// begin starts the segment whose first record is zxid, with need bytes. Without space for a new
// segment it stays in the old one, if the record fits there.
func (l *Log) begin(zxid zk.Zxid, need int64) error {
	var err error
	if l.reserve == nil {
		err = l.makeReserve()
	}
	if err == nil {
		err = l.notePredecessor()
	}
	if errors.Is(err, vfs.ErrNoSpace) && l.file != nil && l.end()+need <= l.allocated {
		return nil
	}
	if err != nil {
		return err
	}
	if l.file != nil {
		if err := l.finish(); err != nil {
			return err
		}
	}
	if err := l.openMark(zxid); err != nil {
		return fmt.Errorf("begin segment: %w", err)
	}
	name := filepath.Join(l.dir, SegmentName(zxid))
	if err := l.fs.Rename(filepath.Join(l.dir, reserveName), name); err != nil {
		return fmt.Errorf("begin segment: %w", err)
	}
	l.file, l.name, l.reserve = l.reserve, name, nil
	l.position = segmentHeadBytes
	l.allocated = segmentHeadBytes + l.reserved
	l.dirDirty, l.roll = true, false
	return nil
}

// notePredecessor writes the zxid of the record before it into the head of the next segment. It
// is synced with the first records. The beginning of an epoch is not a record.
func (l *Log) notePredecessor() error {
	if l.last <= 0 || l.last.Counter() == 0 {
		return nil
	}
	if _, err := l.reserve.WriteAt(binary.BigEndian.AppendUint64(nil, uint64(l.last)), predecessorOffset); err != nil {
		return fmt.Errorf("begin segment: %w", err)
	}
	return nil
}

// finish makes the old segment durable and closes it (txnlog-L4).
func (l *Log) finish() error {
	if err := l.flush(); err != nil {
		return err
	}
	if err := l.retire(); err != nil {
		return err
	}
	if err := l.sync(); err != nil {
		return l.fail(fmt.Errorf("sync %s: %w", l.name, err))
	}
	invariant.Check(len(l.buffer) == 0 && (!l.dirDirty || l.options.NoSync), "txnlog: a segment ends before it is on disk (txnlog-L4)")
	l.unsynced = 0
	l.synced = l.last
	err := l.file.Close()
	l.file = nil
	if err != nil {
		return l.fail(fmt.Errorf("close %s: %w", l.name, err))
	}
	return nil
}

// retire releases the space allocated after the last record.
func (l *Log) retire() error {
	if l.allocated <= l.position {
		return nil
	}
	if err := l.file.Truncate(l.position); err != nil {
		return fmt.Errorf("release the space of %s: %w", l.name, err)
	}
	l.allocated = l.position
	return nil
}
