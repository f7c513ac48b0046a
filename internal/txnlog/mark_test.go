package txnlog

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// holding is a transaction with a client's data in it.
func holding(zxid zk.Zxid, data []byte) []byte {
	return append(append(payload(zxid, 60), data...), payload(zxid, 32)[12:]...)
}

// seeming is data that looks like records of a log, with zxids from next on.
func seeming(next zk.Zxid, size int) []byte {
	var data []byte
	for ; len(data) < size; next++ {
		data = appendRecord(data, payload(next, payloadBytesMin))
	}
	return data
}

// lives writes transactions with data, each synced by itself, and returns the disk
// as it is then.
func lives(t *testing.T, prealloc int64, data []byte, zxids ...zk.Zxid) (*vfs.Mem, *Log) {
	t.Helper()
	disk := newDisk(t)
	log, err := Open(disk, dir, zxids[0]-1, Options{PreallocBytes: prealloc})
	must(t, err)
	for _, zxid := range zxids {
		must(t, log.Append(zxid, holding(zxid, data)))
		must(t, log.Sync())
	}
	return disk, log
}

// ends reads a log to its end, with any payload.
func ends(disk vfs.FS) (last zk.Zxid, torn *Torn, err error) {
	reader, err := NewReader(disk, dir, -1, ReadOptions{})
	if err != nil {
		return 0, nil, err
	}
	defer reader.Close()
	for err == nil {
		_, err = reader.Next()
	}
	if torn = reader.Torn(); !vfs.IsCorruption(err) {
		err = nil
	}
	return reader.Last(), torn, err
}

// Zeros are ordinary data. A bit that changed beside them must not make what was
// acknowledged look like a sector that a crash took: not after an orderly stop, and
// not after the end of the process alone.
func TestChangedByteBesideZerosIsRefused(t *testing.T) {
	for what, data := range map[string][]byte{"zeros": make([]byte, 3000), "records": seeming(3, 3000)} {
		disk, log := lives(t, 64<<10, data, sequence(1, 4)...)
		killed := disk.KillClone()
		must(t, log.Close())
		for how, disk := range map[string]*vfs.Mem{"stopped": disk, "killed": killed} {
			name := filepath.Join(dir, "log.1")
			end := segmentHeadBytes + 4*(recordFrameBytes+len(holding(1, data)))
			for at := segmentHeadBytes; at < end-1; at++ {
				if at == segmentHeadBytes+100 {
					at = end - 3200 // the last record
				}
				must(t, disk.FlipByte(name, int64(at), 0x10))
				if last, torn, err := ends(disk); err == nil {
					t.Fatalf("%s, %s, byte %d changed: ends at %v, torn %+v", what, how, at, last, torn)
				}
				must(t, disk.FlipByte(name, int64(at), 0x10))
			}
			if last, torn, err := ends(disk); last != 4 || torn != nil || err != nil {
				t.Errorf("%s, %s, sound: %v %+v %v", what, how, last, torn, err)
			}
		}
	}
}

// A start behind a power loss, which has taken the mark, notes all it found.
func TestRecoveryMarksWhatItHasFound(t *testing.T) {
	disk, log := lives(t, 64<<10, make([]byte, 3000), sequence(1, 4)...)
	crashed := disk.CrashClone(0, 1)
	must(t, log.Close())
	if mark, err := readMark(crashed, dir); err != nil || mark != (syncMark{}) {
		t.Fatalf("the mark is on the disk: %+v %v", mark, err)
	}
	must(t, MakeDurable(crashed, dir, nil, ReadOptions{}))
	crashed = crashed.CrashClone(0, 1)
	must(t, crashed.FlipByte(filepath.Join(dir, "log.1"), 200, 1))
	if last, torn, err := ends(crashed); err == nil {
		t.Errorf("ends at %v, torn %+v", last, torn)
	}
}

// A power loss tears what was not synced, whatever a client has written in it, and
// a server starts behind it (datadir S2).
func TestTornRecordIsNotJudgedByAClientsData(t *testing.T) {
	for what, data := range map[string][]byte{
		"zeros": make([]byte, 20_000), "records that follow": seeming(3, 20_000), "records far above": seeming(1<<62, 20_000),
		"trailers": bytes.Repeat([]byte{recordTrailer}, 20_000),
	} {
		disk, log := lives(t, 256<<10, data, 1)
		must(t, log.Append(2, holding(2, data)))
		must(t, log.Append(3, holding(3, data)))
		must(t, log.flush())
		for seed := range int64(100) {
			crashed := disk.CrashClone(int(10+seed%9*10), seed)
			last, torn, err := ends(crashed)
			if err != nil || last < 1 {
				t.Fatalf("%s, seed %d: ends at %v, torn %+v: %v", what, seed, last, torn, err)
			}
			must(t, MakeDurable(crashed, dir, torn, ReadOptions{}))
		}
	}
}

// A mark that is older than the log, or damaged, or missing is as good as none; one
// of a segment that was truncated says nothing about the next of that name.
func TestMarkNeverCoversWhatWasNotSynced(t *testing.T) {
	disk, log := lives(t, 64<<10, make([]byte, 3000), sequence(1, 4)...)
	must(t, log.Close())
	syncMarkFile(t, disk)
	must(t, DropAfter(disk, dir, 0, ReadOptions{})) // as when a snapshot of 0 replaces the history

	log, err := Open(disk, dir, 0, Options{PreallocBytes: 64 << 10})
	must(t, err)
	for zxid := zk.Zxid(1); zxid <= 4; zxid++ {
		must(t, log.Append(zxid, holding(zxid, bytes.Repeat([]byte("x"), 3000))))
	}
	must(t, log.flush())
	must(t, disk.SyncDir(dir)) // the name is there before the sync
	for seed := range int64(200) {
		if last, torn, err := ends(disk.CrashClone(50, seed)); err != nil {
			t.Fatalf("seed %d: ends at %v, torn %+v: %v", seed, last, torn, err)
		}
	}
	must(t, log.Close())

	for at := range int64(markBytes) {
		must(t, disk.FlipByte(filepath.Join(dir, MarkName), at, 1))
		if mark, err := readMark(disk, dir); mark != (syncMark{}) || err != nil {
			t.Errorf("byte %d of the mark changed: %+v %v", at, mark, err)
		}
		must(t, disk.FlipByte(filepath.Join(dir, MarkName), at, 1))
	}
}

// syncMarkFile writes the mark to the disk, as the operating system does at last.
func syncMarkFile(t *testing.T, disk vfs.FS) {
	t.Helper()
	f, err := disk.OpenReadWrite(filepath.Join(dir, MarkName))
	must(t, err)
	must(t, f.Sync())
	must(t, f.Close())
}

// A truncation that a power loss interrupts leaves zeros where the mark was right before.
func TestCrashDuringATruncationIsNoDamage(t *testing.T) {
	disk, log := lives(t, 64<<10, make([]byte, 3000), sequence(1, 4)...)
	must(t, log.Close())
	must(t, disk.SyncDir(dir))
	syncMarkFile(t, disk)
	crashes := int64(0)
	faulty := &vfs.Faulty{Disk: disk, Before: func(op vfs.Op) error {
		for range 20 {
			crashes++
			if last, torn, err := ends(disk.CrashClone(50, crashes)); err != nil || last < 1 {
				t.Fatalf("before %s: ends at %v, torn %+v: %v", op, last, torn, err)
			}
		}
		return nil
	}}
	must(t, Truncate(faulty, dir, 1, ReadOptions{}))
}

// Without space for a mark the log goes on without one, and an old one stays true.
func TestLogGoesOnWithoutSpaceForAMark(t *testing.T) {
	disk := newDisk(t)
	faulty := &vfs.Faulty{Disk: disk, Before: func(op vfs.Op) error {
		if op.Kind == vfs.KindWrite && filepath.Base(op.Name) == MarkName {
			return vfs.ErrNoSpace
		}
		return nil
	}}
	write(t, disk, 0, Options{}, sequence(1, 3)...)
	write(t, faulty, 3, Options{}, sequence(4, 6)...)
	if got, torn, err := read(disk, 0); err != nil || torn != nil || len(got) != 6 {
		t.Errorf("%v %+v %v", got, torn, err)
	}
	want := syncMark{1, int64(recordEnds(sequence(1, 3))[3])}
	if mark, err := readMark(disk, dir); err != nil || mark != want {
		t.Errorf("mark %+v %v, want %+v", mark, err, want)
	}
}

// Any other failure is that of the disk, and final.
func TestMarkThatCannotBeWrittenEndsTheLog(t *testing.T) {
	eio := errors.New("input/output error")
	writes := 0
	faulty := &vfs.Faulty{Disk: newDisk(t), Before: func(op vfs.Op) error {
		if op.Kind == vfs.KindWrite && filepath.Base(op.Name) == MarkName {
			if writes++; writes == 1 {
				return eio
			}
		}
		return nil
	}}
	log, err := Open(faulty, dir, 0, Options{})
	must(t, err)
	must(t, log.Append(1, payload(1, 40)))
	if err := log.Sync(); !errors.Is(err, eio) || log.Err() == nil {
		t.Errorf("sync: %v, then %v", err, log.Err())
	}
	if log.Close() == nil {
		t.Error("closed as if nothing was wrong")
	}
}
