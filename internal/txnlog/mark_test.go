package txnlog

import (
	"bytes"
	"errors"
	"io"
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

// lives writes transactions with data, each with a sync of its own, and returns the resulting
// disk.
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

// Zeros are ordinary data. A changed bit next to them must not make an acknowledged record look
// like a sector that a crash took: neither after an orderly stop, nor if only the process has
// ended.
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

// A start after a power loss that has taken the mark notes everything that it found.
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

// A power loss tears what was not synced, whatever data a client has written there, and a
// server starts after it (datadir S2).
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

// A mark that is older than the log, or damaged, or missing counts as none. The mark of a
// segment that was truncated says nothing about the next one of that name.
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
	must(t, disk.SyncDir(dir)) // the name is durable before the sync
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

// syncMarkFile writes the mark to the disk, as the operating system does at some time.
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

// Without space for a mark the log continues without one, and an old one stays true.
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

// Any other failure is a failure of the disk, and final.
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

func TestWhatIsLostIsNamed(t *testing.T) {
	for want, lost := range map[string]Lost{
		"log.5 is missing, of which 900 bytes were synced":                       {Segment: "log.5", Missing: true, Synced: 900},
		"the records of log.5 end at offset 69, and 900 bytes of it were synced": {Segment: "log.5", Synced: 900, End: 69},
		"log.5, the newest log, ends with 0x6, and there is a snapshot of 0x7":   {Segment: "log.5", Last: 6, Snapshot: 7},
	} {
		if got := lost.Error(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// A mark says that something is lost if a snapshot is newer than the end of its own segment. It
// does not if the mark is older, as after a power loss, or if the snapshot begins an epoch, as
// after a restore.
func TestMarkAndSnapshotSayWhatIsLost(t *testing.T) {
	disk := newDisk(t)
	write(t, disk, 0, Options{}, sequence(1, 4)...)
	older := content(t, disk, MarkName)
	write(t, disk, 4, Options{}, 5, 6)
	newest := content(t, disk, MarkName)
	for _, c := range []struct {
		mark     []byte
		snapshot zk.Zxid
		lost     bool
	}{{newest, 9, true}, {newest, 6, false}, {newest, 0x100000000, false}, {older, 9, false}} {
		put(t, disk, MarkName, c.mark)
		noted, err := ReadNoted(disk, dir)
		must(t, err)
		reader, err := NewReader(disk, dir, c.snapshot, ReadOptions{})
		must(t, err)
		if _, err := reader.Next(); err != io.EOF {
			t.Fatalf("read after %s: %v", c.snapshot, err)
		}
		if lost := noted.Lost(reader); (lost != nil) != c.lost {
			t.Errorf("a snapshot of %s: lost %v, want %v", c.snapshot, lost, c.lost)
		}
	}
}
