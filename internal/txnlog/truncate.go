package txnlog

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// ErrNotInLog is the error of Truncate for a zxid that the log does not hold.
var ErrNotInLog = errors.New("transaction is not in the log")

// Truncate cuts the log behind the record with zxid last and makes that
// durable. No Log may be open. When no such record is there it returns
// ErrNotInLog and has changed nothing: cutting near it would keep a transaction
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

// DropBehind cuts the log behind its last record that is not greater than last,
// for a history of which a snapshot holds the rest up to last.
func DropBehind(fsys vfs.FS, dir string, last zk.Zxid, options ReadOptions) error {
	end, err := findEnd(fsys, dir, last, options)
	if err == nil {
		err = cut(fsys, dir, last, end)
	}
	if err != nil {
		return fmt.Errorf("drop transactions behind %s: %w", last, err)
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

// cut deletes the segments that begin behind last, the newest first, so that a
// crash on the way leaves a log without a hole, and then shortens the one that
// end is in.
func cut(fsys vfs.FS, dir string, last zk.Zxid, end Record) error {
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

// Settle makes what a Reader has read to its end the durable state of the log.
// It cuts a torn end off, so that it can never stand before later records, and
// syncs the newest segment: a process that was killed may have left records
// that were read now from memory and would be gone after a power loss.
func Settle(fsys vfs.FS, dir string, torn *Torn) error {
	segments, err := Segments(fsys, dir)
	if err != nil || len(segments) == 0 {
		return err
	}
	newest := filepath.Join(dir, segments[len(segments)-1].Name)
	switch {
	case torn == nil:
		err = syncFile(fsys, newest)
	case torn.Offset <= segmentHeadBytes:
		if err = fsys.Remove(torn.File); err == nil && torn.File == newest && len(segments) > 1 {
			err = syncFile(fsys, filepath.Join(dir, segments[len(segments)-2].Name))
		}
	default:
		err = shorten(fsys, torn.File, torn.Offset)
	}
	if err != nil {
		return fmt.Errorf("settle transaction log: %w", err)
	}
	return fsys.SyncDir(dir)
}

func syncFile(fsys vfs.FS, name string) error {
	file, err := fsys.OpenReadWrite(name)
	if err != nil {
		return err
	}
	err = file.Sync()
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	return err
}
