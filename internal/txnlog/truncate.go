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

// ErrNotInLog is the error of Truncate for a zxid that the log does not hold.
var ErrNotInLog = errors.New("transaction is not in the log")

// Truncate truncates the log after the record with zxid last and makes that
// durable. No Log may be open. When no such record is there it returns
// ErrNotInLog and has changed nothing: truncating near it would keep a transaction
// too many or lose one, so the history must come from elsewhere (ZooKeeper keeps
// the next larger one).
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

// DropAfter truncates the log after its last record that is not greater than last,
// for a history of which a snapshot holds the rest up to last.
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

// CanDropAfter returns why DropAfter could not find its place in the log, nil if it can.
func CanDropAfter(fsys vfs.FS, dir string, last zk.Zxid, options ReadOptions) error {
	_, err := findEnd(fsys, dir, last, options)
	return err
}

// Remove removes the log, whatever is in it, for a history that a snapshot holds whole.
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

// findEnd returns the last record with a zxid of at most last, with the offset
// of its end, or a record without a file when there is none.
func findEnd(fsys vfs.FS, dir string, last zk.Zxid, options ReadOptions) (Record, error) {
	// What is before the record may have gaps that a snapshot explains.
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

// cut deletes the segments that begin after last, the newest first, so that a
// crash on the way leaves a log without a gap, and then shortens the one that
// end is in.
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

// MakeDurable makes what a Reader has read to its end the durable state of the log.
// It cuts torn ends off, so that none can ever stand before later records, and
// writes the end of the newest segment again and syncs it: a process that was
// killed may have left records that were read now from memory and would be gone
// after a power loss. A sync alone would not do: after one that has failed, which
// may be why the process ended, the next says yes and saves nothing (vfs.V3).
// Options are those of the Reader.
func MakeDurable(fsys vfs.FS, dir string, torn *Torn, options ReadOptions) error {
	segments, err := Segments(fsys, dir)
	if err != nil || len(segments) == 0 {
		return err
	}
	if torn != nil || options.Behind {
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

// renew writes the last bytes, which may never have been synced, again as they are,
// syncs, and notes that. What a mark covers is synced. The space behind the records, to which
// nothing is appended any more (Open), is given up: each later start would read it, and a crash
// leaves as much again. A file system that copies on write may need more space than that: then
// what the log keeps for its next segment is given up too.
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

// rewrite writes what is between two offsets again, and syncs all. It can be repeated.
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

// giveReserve releases the space that the log has taken for its next segment.
func giveReserve(fsys vfs.FS, dir string) error {
	if err := fsys.Remove(filepath.Join(dir, reserveName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fsys.SyncDir(dir)
}

// writtenEnd is where the zeros after the records of a segment begin, and its size.
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

// withoutZeros leaves out the zeros at the end, of which there may be tens of MiB in all.
func withoutZeros(p []byte) []byte {
	for len(p) >= len(zeros) && bytes.Equal(p[len(p)-len(zeros):], zeros[:]) {
		p = p[:len(p)-len(zeros)]
	}
	return bytes.TrimRight(p, "\x00")
}
