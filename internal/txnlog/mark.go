package txnlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"

	"github.com/conclave-project/conclave/internal/invariant"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// A record with a sector of zeros in its middle may have been torn by a crash, or may contain
// zeros in its data and have a changed bit elsewhere. The segment alone cannot distinguish the
// two: both may have the same bytes. The difference is whether the record was synced. So after
// every Sync the log notes how far it reached, in a file beside the segments:
//
//	 0  int64  first zxid of the segment, as in its name
//	 8  int64  where its synced bytes end
//	16  int32  CRC-32 of the 16 bytes before
//
// This mark itself is not synced: that would double the cost of a write. After the end of a
// process it is exact; after a power loss it is as old as the last time the operating system
// wrote it, some seconds. That is safe, because an older mark of the same segment is also true,
// only about less (txnlog-L7). Recovery writes a new mark that covers everything it found.
// Before anything is truncated the file is removed, so that it never describes a segment that
// is shorter by now, or another segment of the same name. ZooKeeper ignores the file. Without
// it, as in a directory of ZooKeeper's own, everything that a crash explains counts as torn.

// MarkName is the name of the file.
const MarkName = "synced"

const markBytes = 20

// syncMark records how much of a segment is synced.
type syncMark struct {
	segment zk.Zxid // first zxid, as in its name
	end     int64   // bytes
}

func (m syncMark) encode() []byte {
	p := make([]byte, 0, markBytes)
	p = binary.BigEndian.AppendUint64(p, uint64(m.segment))
	p = binary.BigEndian.AppendUint64(p, uint64(m.end))
	return binary.BigEndian.AppendUint32(p, crc32.ChecksumIEEE(p))
}

// readMark reads the mark in dir. If there is none, or it is not whole, it covers nothing.
func readMark(fsys vfs.FS, dir string) (syncMark, error) {
	file, err := fsys.Open(filepath.Join(dir, MarkName))
	if errors.Is(err, fs.ErrNotExist) {
		return syncMark{}, nil
	}
	if err != nil {
		return syncMark{}, fmt.Errorf("read transaction log: %w", err)
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil || size != markBytes {
		return syncMark{}, err
	}
	p := make([]byte, markBytes)
	if _, err := file.ReadAt(p, 0); err != nil {
		return syncMark{}, fmt.Errorf("read transaction log: %w", err)
	}
	if crc32.ChecksumIEEE(p[:16]) != binary.BigEndian.Uint32(p[16:]) {
		return syncMark{}, nil
	}
	return syncMark{segment: zk.Zxid(binary.BigEndian.Uint64(p)), end: int64(binary.BigEndian.Uint64(p[8:]))}, nil
}

// Lost describes what was synced but is no longer in the log: a person has removed or shortened
// a file, or the disk did not keep what it reported as written. A copy taken while the server
// ran may look like that too, because the mark may be copied later than the log.
type Lost struct {
	Segment string // name of the file
	Missing bool   // neither this file nor a newer one exists
	Synced  int64  // offset in the file where the synced bytes end
	End     int64  // offset where its records end

	// Last is the last record, and Snapshot is the zxid of a later snapshot: when that was
	// taken, its record was on the disk. 0 if there is no such snapshot. A snapshot at the
	// beginning of an epoch, as after a restore, has no record, and ZooKeeper's own servers
	// have snapshots without a record.
	Last, Snapshot zk.Zxid
}

// Error describes what is lost.
func (l *Lost) Error() string {
	if l.Snapshot > 0 {
		return fmt.Sprintf("%s, the newest log, ends with %s, and there is a snapshot of %s", l.Segment, l.Last, l.Snapshot)
	}
	if l.Missing {
		return fmt.Sprintf("%s is missing, of which %d bytes were synced", l.Segment, l.Synced)
	}
	return fmt.Sprintf("the records of %s end at offset %d, and %d bytes of it were synced", l.Segment, l.End, l.Synced)
}

// Noted is the content of the mark beside a log.
type Noted struct{ mark syncMark }

// ReadNoted reads the mark. It must be read before the log, which a server may be writing.
func ReadNoted(fsys vfs.FS, dir string) (Noted, error) {
	mark, err := readMark(fsys, dir)
	return Noted{mark}, err
}

// Lost returns what a log lacks of what was noted; nil for nothing. The reader must have read
// the whole log and returned io.EOF. A mark older than the newest segment says nothing about
// that segment.
func (n Noted) Lost(r *Reader) *Lost {
	newest, _ := ParseSegmentName(filepath.Base(r.name))
	lost := Lost{Segment: SegmentName(n.mark.segment), Synced: n.mark.end}
	switch {
	case n.mark.end <= segmentHeadBytes:
		return nil
	case r.name == "" || newest < n.mark.segment:
		lost.Missing = true
	case newest == n.mark.segment && r.Behind() && r.after.Counter() > 0:
		lost.Last, lost.Snapshot = r.lowest, r.after
	case newest > n.mark.segment || r.end >= n.mark.end:
		return nil
	default:
		lost.End = r.end
	}
	return &lost
}

// openMark prepares the mark for a segment that begins with first. On a full disk, or if
// nothing is ever synced, there is none.
func (l *Log) openMark(first zk.Zxid) (err error) {
	l.first = first
	if l.mark != nil || l.options.NoSync {
		return nil
	}
	l.mark, err = markFile(l.fs, l.dir)
	return l.withoutSpace(err)
}

func markFile(fsys vfs.FS, dir string) (vfs.File, error) {
	name := filepath.Join(dir, MarkName)
	file, err := fsys.OpenReadWrite(name)
	if errors.Is(err, fs.ErrNotExist) {
		return fsys.Create(name)
	}
	return file, err
}

// noteSynced records how much of the segment is synced.
func (l *Log) noteSynced() error {
	if l.mark == nil {
		return nil
	}
	invariant.Check(len(l.buffer) == 0 && !l.dirDirty, "txnlog: a mark beyond what is synced (txnlog-L7)")
	_, err := l.mark.WriteAt(syncMark{l.first, l.position}.encode(), 0)
	return l.withoutSpace(err)
}

// noteAtEnd writes a mark that was given up, because the disk may have space again.
func (l *Log) noteAtEnd() error {
	if l.mark != nil {
		return nil
	}
	if err := l.openMark(l.first); err != nil {
		return err
	}
	return l.noteSynced()
}

// withoutSpace gives the mark up if the disk has no space for it, because some file systems
// need space even to write in place. What the mark says remains true. Any other error is an
// error of the log.
func (l *Log) withoutSpace(err error) error {
	if errors.Is(err, vfs.ErrNoSpace) {
		l.closeMark()
		return nil
	}
	return err
}

// putMark writes a mark and syncs it, but not its name; on a full disk it writes none.
func putMark(fsys vfs.FS, dir string, mark syncMark) error {
	file, err := markFile(fsys, dir)
	if err == nil {
		_, err = file.WriteAt(mark.encode(), 0)
		if err == nil {
			err = file.Sync()
		}
		if closeErr := file.Close(); err == nil {
			err = closeErr
		}
	}
	if errors.Is(err, vfs.ErrNoSpace) {
		return nil
	}
	return err
}

// dropMark removes the mark in dir, durably.
func dropMark(fsys vfs.FS, dir string) error {
	err := fsys.Remove(filepath.Join(dir, MarkName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return fsys.SyncDir(dir)
}

func (l *Log) closeMark() {
	if l.mark != nil {
		_ = l.mark.Close()
		l.mark = nil
	}
}
