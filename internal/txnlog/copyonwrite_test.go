package txnlog

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// copies is a disk that needs space to overwrite what was written or allocated, like btrfs, and
// like XFS when a copy shares the blocks. Truncating and removing files yields space.
type copies struct {
	vfs.Faulty
	full  bool
	spare bool // a file of the log was shortened or removed
}

func newCopies(disk vfs.FS) *copies {
	c := &copies{}
	c.Faulty = vfs.Faulty{Disk: disk, Before: func(op vfs.Op) error {
		switch op.Kind {
		case vfs.KindTruncate:
			c.spare = true
		case vfs.KindRemove:
			c.spare = c.spare || strings.Contains(op.Name, "log.") || strings.HasSuffix(op.Name, reserveName)
		case vfs.KindWrite, vfs.KindAllocate, vfs.KindCreate:
			if c.full && !c.spare {
				return vfs.ErrNoSpace
			}
		}
		return nil
	}}
	return c
}

func TestRecordsWaitOnAFullDiskThatCopiesOnWrite(t *testing.T) {
	for _, record := range []int{40, 300 << 10} { // the long ones are written when the next one comes
		disk := newDisk(t)
		full := newCopies(disk)
		log, err := Open(full, dir, 0, Options{PreallocBytes: 16 << 20})
		must(t, err)
		must(t, log.Append(1, payload(1, record)))
		must(t, log.Sync())
		full.full, full.spare = true, false
		zxid := zk.Zxid(2)
		for err = nil; err == nil && zxid < 40; zxid++ {
			if err = log.Append(zxid, payload(zxid, record)); err != nil {
				zxid--
			}
		}
		if record > flushBytes == (err == nil) || err != nil && !errors.Is(err, vfs.ErrNoSpace) {
			t.Fatalf("record %s: %v", zxid, err)
		}
		if err := log.Sync(); !errors.Is(err, vfs.ErrNoSpace) || log.Err() != nil || log.Synced() != 1 {
			t.Fatalf("sync: %v, log %v, synced %s", err, log.Err(), log.Synced())
		}
		full.full = false
		last := log.Last()
		must(t, log.Sync())
		must(t, log.Append(last+1, payload(last+1, record)))
		must(t, log.Close())
		if got, torn, err := read(disk.CrashClone(0, 1), 0); err != nil || torn != nil || len(got) != int(last)+1 {
			t.Errorf("%d records, %v, %v", len(got), torn, err)
		}
	}
}

// A log is made durable without free space. It uses the space that the log has allocated ahead,
// behind its records, which is given up each time, and that of its next segment if the first is
// not enough.
func TestLogIsMadeDurableOnAFullDiskThatCopiesOnWrite(t *testing.T) {
	begin := func(t *testing.T) (*vfs.Mem, *copies, *Log) {
		disk := newDisk(t)
		full := newCopies(disk)
		log, err := Open(full, dir, 0, Options{PreallocBytes: 16 << 20})
		must(t, err)
		must(t, log.Append(1, payload(1, 600)))
		must(t, log.Sync())
		return disk, full, log
	}
	durable := func(t *testing.T, disk *vfs.Mem, records int, reserve bool) {
		t.Helper()
		put(t, disk, reserveName, segmentHead())
		full := newCopies(disk)
		full.full = true
		must(t, MakeDurable(full, dir, nil, ReadOptions{}))
		if left := content(t, disk, "log.1"); len(withoutZeros(left)) != len(left) {
			t.Errorf("the segment has %d bytes, %d without zeros", len(left), len(withoutZeros(left)))
		}
		if file, err := disk.Open(filepath.Join(dir, reserveName)); (err == nil) != reserve {
			t.Errorf("the next segment's space: %v, want it kept: %v", err, reserve)
		} else if err == nil {
			must(t, file.Close())
		}
		if got, torn, err := read(disk.CrashClone(0, 1), 0); err != nil || torn != nil || len(got) != records {
			t.Errorf("%v %v %v", got, torn, err)
		}
	}
	t.Run("KilledAfterASync", func(t *testing.T) {
		disk, _, _ := begin(t)
		durable(t, disk.KillClone(), 1, true)
	})
	t.Run("KilledBeforeASync", func(t *testing.T) {
		disk, _, log := begin(t)
		must(t, log.Append(2, payload(2, 600)))
		must(t, log.flush())
		durable(t, disk.KillClone(), 2, true)
	})
	t.Run("KilledBeforeASyncWithNothingBehindTheRecords", func(t *testing.T) {
		disk, _, log := begin(t)
		must(t, log.Append(2, payload(2, 600)))
		must(t, log.flush())
		killed := disk.KillClone()
		put(t, killed, "log.1", withoutZeros(content(t, killed, "log.1")))
		durable(t, killed, 2, false)
	})
	t.Run("StoppedAfterTheMarkWasGivenUp", func(t *testing.T) {
		disk, _, log := begin(t)
		log.closeMark() // as a log does that finds no space
		must(t, log.Append(2, payload(2, 600)))
		must(t, log.Sync())
		must(t, log.Close())
		durable(t, disk.KillClone(), 2, true)
	})
}
