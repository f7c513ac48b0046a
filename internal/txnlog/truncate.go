package txnlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// ErrNotInLog is the error of Truncate for a zxid that is not in the log.
var ErrNotInLog = errors.New("transaction is not in the log")

// Truncate truncates the log after the record with zxid last and makes that durable. No Log may
// be open. If there is no such record, it returns ErrNotInLog and has changed nothing:
// truncating near it would keep one transaction too many or lose one, so the history must come
// from elsewhere. (ZooKeeper keeps the record with the next higher zxid.)
func Truncate(fsys vfs.FS, dir string, last zk.Zxid, options ReadOptions) error {
	end, err := findEnd(fsys, dir, last, options)
	if err == nil && end.Zxid != last {
		err = ErrNotInLog
	}
	if err == nil {
		err = cut(fsys, dir, last, end)
	}
	if err != nil {
		return fmt.Errorf("truncate transaction log to %s: %w", last, err)
	}
	return nil
}

// DropAfter truncates the log after its last record that is not greater than last. It is for a
// history whose remainder, up to last, is in a snapshot.
func DropAfter(fsys vfs.FS, dir string, last zk.Zxid, options ReadOptions) error {
	end, err := findEnd(fsys, dir, last, options)
	if err == nil {
		err = cut(fsys, dir, last, end)
	}
	if err != nil {
		return fmt.Errorf("drop transactions after %s: %w", last, err)
	}
	return nil
}

// CanDropAfter returns why DropAfter could not find its place in the log; nil if it can.
func CanDropAfter(fsys vfs.FS, dir string, last zk.Zxid, options ReadOptions) error {
	_, err := findEnd(fsys, dir, last, options)
	return err
}

// Remove removes the log, whatever it contains, for a history that is completely in a snapshot.
func Remove(fsys vfs.FS, dir string) error {
	err := dropMark(fsys, dir)
	if err != nil {
		return fmt.Errorf("remove transaction log: %w", err)
	}
	segments, err := Segments(fsys, dir)
	for i := 0; err == nil && i < len(segments); i++ {
		err = fsys.Remove(filepath.Join(dir, segments[i].Name))
	}
	if err == nil {
		err = fsys.SyncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("remove transaction log: %w", err)
	}
	return nil
}

// findEnd returns the last record with a zxid of at most last, with the offset of its end; if
// there is none, a record without a file.
func findEnd(fsys vfs.FS, dir string, last zk.Zxid, options ReadOptions) (Record, error) {
	// The records before it may have gaps that a snapshot explains.
	options.AllowGaps = true
	reader, err := NewReader(fsys, dir, -1, options)
	if err != nil {
		return Record{}, err
	}
	defer reader.Close()
	reader.segments = covering(reader.segments, last)
	var end Record
	for end.Zxid != last {
		record, err := reader.Next()
		if err == io.EOF || err == nil && record.Zxid > last {
			break
		}
		if err != nil {
			return Record{}, err
		}
		record.Offset += int64(len(record.Payload)) + recordFrameBytes
		record.Payload = nil
		end = record
	}
	return end, nil
}

// cut deletes the segments that begin after last, and then shortens the one that end is in. It
// deletes the newest first, so that a crash on the way leaves a log without a gap.
func cut(fsys vfs.FS, dir string, last zk.Zxid, end Record) error {
	if err := dropMark(fsys, dir); err != nil {
		return err
	}
	segments, err := Segments(fsys, dir)
	if err != nil {
		return err
	}
	for i := len(segments) - 1; i >= 0 && segments[i].First > last; i-- {
		if err := fsys.Remove(filepath.Join(dir, segments[i].Name)); err != nil {
			return err
		}
		if err := fsys.SyncDir(dir); err != nil {
			return err
		}
	}
	if end.File == "" {
		return nil
	}
	return shorten(fsys, end.File, end.Offset)
}

func shorten(fsys vfs.FS, name string, size int64) error {
	file, err := fsys.OpenReadWrite(name)
	if err != nil {
		return err
	}
	err = file.Truncate(size)
	if err == nil {
		err = file.Sync()
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	return err
}

// MakeDurable makes what a Reader has read to its end the durable state of the log. It removes
// torn ends, so that none can ever come before later records. It also writes the end of the
// newest segment again and syncs it: a process that was killed may have left records that were
// now read from memory and would be gone after a power loss. A sync alone is not enough: after
// a sync that failed, which may be why the process ended, the next one succeeds and saves
// nothing (vfs.V3). Options are those of the Reader.
func MakeDurable(fsys vfs.FS, dir string, torn *Torn, options ReadOptions) error {
	segments, err := Segments(fsys, dir)
	switch {
	case err != nil:
		return err
	case len(segments) == 0:
		return dropMark(fsys, dir) // what it was of has gone
	case torn != nil || options.Behind:
		err = dropMark(fsys, dir)
	}
	for t := torn; t != nil && err == nil; t = t.before { // the newest first
		if t.Offset > segmentHeadBytes {
			err = shorten(fsys, t.File, t.Offset)
			continue
		}
		err = fsys.Remove(t.File)
		segments = slices.DeleteFunc(segments, func(s Segment) bool { return filepath.Join(dir, s.Name) == t.File })
	}
	if err == nil && len(segments) > 0 {
		err = renew(fsys, dir, segments[len(segments)-1], options)
	}
	if err != nil {
		return fmt.Errorf("make the transaction log durable: %w", err)
	}
	return fsys.SyncDir(dir)
}

// renew writes the last bytes of a segment, which may never have been synced, again as they
// are, syncs them, and writes a mark. What an older mark covers is synced already.
//
// It releases the space after the records, because nothing is appended there any more (Open):
// each later start would read it, and each crash leaves as much again. A file system that
// copies on write may need more space for this than there is: then the space that the log keeps
// for its next segment is released too.
func renew(fsys vfs.FS, dir string, segment Segment, options ReadOptions) error {
	mark, err := readMark(fsys, dir)
	if err != nil {
		return err
	}
	file, err := fsys.OpenReadWrite(filepath.Join(dir, segment.Name))
	if err != nil {
		return err
	}
	end, size, err := writtenEnd(file)
	if end < size && err == nil {
		err = file.Truncate(end)
	}
	if err == nil {
		begin := max(end-options.unsyncedMax(), 0)
		if mark.segment == segment.First {
			begin = max(begin, min(mark.end, end))
		}
		err = rewrite(file, begin, end)
		if errors.Is(err, vfs.ErrNoSpace) {
			if err = giveReserve(fsys, dir); err == nil {
				err = rewrite(file, begin, end)
			}
		}
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil || options.Behind {
		return err
	}
	return putMark(fsys, dir, syncMark{segment.First, end})
}

// rewrite writes what is between two offsets again, and syncs the file. It can be repeated.
func rewrite(file vfs.File, begin, end int64) error {
	buffer := make([]byte, min(readBytes, max(end-begin, 0)))
	for at := begin; at < end; {
		part := buffer[:min(int64(len(buffer)), end-at)]
		if _, err := file.ReadAt(part, at); err != nil && err != io.EOF {
			return err
		}
		if _, err := file.WriteAt(part, at); err != nil {
			return err
		}
		at += int64(len(part))
	}
	return file.Sync()
}

// giveReserve releases the space that the log has allocated for its next segment.
func giveReserve(fsys vfs.FS, dir string) error {
	if err := fsys.Remove(filepath.Join(dir, reserveName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fsys.SyncDir(dir)
}

// writtenEnd returns where the zeros after the records of a segment begin, and its size.
func writtenEnd(file vfs.File) (end, size int64, err error) {
	if size, err = file.Size(); err != nil {
		return 0, 0, err
	}
	buffer := make([]byte, min(readBytes, size))
	for end = size; end > segmentHeadBytes; {
		part := buffer[:min(int64(len(buffer)), end-segmentHeadBytes)]
		if _, err := file.ReadAt(part, end-int64(len(part))); err != nil && err != io.EOF {
			return 0, 0, err
		}
		if written := len(withoutZeros(part)); written > 0 {
			return end - int64(len(part)-written), size, nil
		}
		end -= int64(len(part))
	}
	return end, size, nil // the head may have zeros at its end
}

var zeros [4 << 10]byte

// withoutZeros removes the zeros at the end, of which there may be tens of MiB in total.
func withoutZeros(p []byte) []byte {
	for len(p) >= len(zeros) && bytes.Equal(p[len(p)-len(zeros):], zeros[:]) {
		p = p[:len(p)-len(zeros)]
	}
	return bytes.TrimRight(p, "\x00")
}
