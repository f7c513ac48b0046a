package txnlog

import (
	"bytes"
	"errors"
	"testing"

	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// ZooKeeper's servers do not truncate a torn end: after two power losses two files have one,
// with no record between them. Both are truncated, and the mark that the start writes covers
// neither.
func TestTwoTornEndsInARowAreBothCut(t *testing.T) {
	for what, tear := range map[string]func(*vfs.Mem, []byte){
		"a record that stops":        func(disk *vfs.Mem, p []byte) { put(t, disk, "log.1", p[:len(p)-1500]) },
		"a sector that a crash took": func(disk *vfs.Mem, p []byte) { clear(p[len(p)-2048:][:1024]); put(t, disk, "log.1", p) },
	} {
		disk, log := lives(t, 0, []byte("data"), 1, 2)
		must(t, log.Append(3, holding(3, bytes.Repeat([]byte("x"), 3000))))
		must(t, log.Close())
		must(t, disk.Remove(dir+"/"+MarkName)) // as ZooKeeper leaves it
		tear(disk, content(t, disk, "log.1"))
		put(t, disk, "log.3", segmentHead()[:5])
		last, torn, err := ends(disk)
		if last != 2 || torn == nil || err != nil {
			t.Fatalf("%s: ends at %v, torn %+v, %v", what, last, torn, err)
		}
		must(t, MakeDurable(disk, dir, torn, ReadOptions{}))
		noted, err := ReadNoted(disk, dir)
		must(t, err)
		reader, err := NewReader(disk, dir, -1, ReadOptions{})
		must(t, err)
		for err == nil {
			_, err = reader.Next()
		}
		if reader.Last() != 2 || reader.Torn() != nil || noted.Lost(reader) != nil || vfs.IsCorruption(err) {
			t.Errorf("%s, the next start: ends at %v, torn %+v, lost %v, %v", what, reader.Last(), reader.Torn(), noted.Lost(reader), err)
		}
	}
}

// Whatever fails while torn ends are removed is an error of the start: a torn end that remained
// would come before later records.
func TestEachFailureWhileTornEndsAreRemovedIsAnError(t *testing.T) {
	eio := errors.New("input/output error")
	for fail := 1; ; fail++ {
		disk := newDisk(t)
		write(t, disk, 0, Options{}, sequence(1, 3)...)
		p := content(t, disk, "log.1")
		put(t, disk, "log.1", p[:len(p)-20])
		put(t, disk, "log.3", segmentHead()[:5])
		_, torn, err := read(disk, 0)
		must(t, err)
		count := 0
		faulty := &vfs.Faulty{Disk: disk, Before: func(vfs.Op) error {
			if count++; count == fail {
				return eio
			}
			return nil
		}}
		err = MakeDurable(faulty, dir, torn, ReadOptions{})
		if count < fail {
			must(t, err)
			return // no operation left to fail
		}
		if !errors.Is(err, eio) {
			t.Fatalf("operation %d fails: %v", fail, err)
		}
	}
}

// A sector of zeros in an old epoch may be damage. An empty file after it does not prove that
// nothing is missing.
func TestEmptyFileHidesNoDamageOfAnOldEpoch(t *testing.T) {
	const next = zk.Zxid(0x100000001)
	for what, empty := range map[string][]byte{"no byte": {}, "a part of a head": segmentHead()[:5], "a head": segmentHead()} {
		disk, log := lives(t, 0, make([]byte, 3000), 1, 2, 3)
		must(t, log.Close())
		p := content(t, disk, "log.1")
		p[segmentHeadBytes+recordFrameBytes+len(holding(1, make([]byte, 3000)))+recordHeadBytes+40] ^= 1 // in the second record
		put(t, disk, "log.1", p)
		must(t, disk.Remove(dir+"/"+MarkName))
		put(t, disk, "log.4", empty)
		head := segmentHead() // ZooKeeper does not record what comes before
		put(t, disk, SegmentName(next), appendRecord(head, holding(next, nil)))
		if last, torn, err := ends(disk); !vfs.IsCorruption(err) {
			t.Errorf("%s: ends at %v, torn %+v, %v", what, last, torn, err)
		}
	}
}

// Files that a purge has removed, and that a power loss brings back, make no gap that stays
// unnoticed.
func TestPowerLossAfterAPurgeLeavesNoGap(t *testing.T) {
	const next = zk.Zxid(0x100000001)
	disk := newDisk(t)
	for first := zk.Zxid(1); first < 13; first += 4 { // as ZooKeeper writes them
		segment := segmentHead()
		for z := first; z < first+4; z++ {
			segment = appendRecord(segment, payload(z, 60))
		}
		put(t, disk, SegmentName(first), segment)
	}
	put(t, disk, SegmentName(next), appendRecord(segmentHead(), payload(next, 60)))
	deleted, err := Purge(disk, dir, next)
	if err != nil || len(deleted) != 3 {
		t.Fatal(deleted, err)
	}
	whole := 0
	for seed := range int64(100) {
		got, _, err := read(disk.CrashClone(50, seed), -1)
		if err != nil {
			continue // it is noticed
		}
		for i := 1; i < len(got); i++ {
			if got[i] != got[i-1]+1 && got[i-1] != 12 {
				t.Fatalf("seed %d: %v", seed, got)
			}
		}
		whole++
	}
	if whole == 0 {
		t.Error("no log can be read")
	}
}

// The first sector of a file is zero, and records follow it. A crash can leave that before the
// file was synced. Afterwards it is damage, like any other sector of zeros.
func TestZerosInAHeadThatWasSyncedAreRefused(t *testing.T) {
	const next = zk.Zxid(0x100000001)
	disk, log := lives(t, 64<<10, []byte("data"), sequence(1, 20)...)
	must(t, log.Close())
	p := content(t, disk, "log.1")
	clear(p[:vfs.SectorBytes])
	put(t, disk, "log.1", p)
	if last, torn, err := ends(disk); !vfs.IsCorruption(err) {
		t.Errorf("synced: ends at %v, torn %+v", last, torn)
	}
	must(t, disk.Remove(dir+"/"+MarkName))
	if last, torn, err := ends(disk); torn == nil || err != nil {
		t.Errorf("perhaps not synced: ends at %v, torn %+v, %v", last, torn, err)
	}
	put(t, disk, SegmentName(next), appendRecord(segmentHead(), holding(next, nil)))
	reader, err := NewReader(disk, dir, 0, ReadOptions{})
	must(t, err)
	for err == nil {
		_, err = reader.Next()
	}
	if !vfs.IsCorruption(err) {
		t.Errorf("with an epoch that goes on after it: ends at %v, %v", reader.Last(), err)
	}
}
