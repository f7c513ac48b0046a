package txnlog

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

const dir = "data/version-2"

// payload makes a transaction of size bytes that shows its zxid in every part.
func payload(zxid zk.Zxid, size int) []byte {
	p := make([]byte, size)
	for i := range p {
		p[i] = byte(zxid) + byte(i)*7 | 1
	}
	binary.BigEndian.PutUint64(p[payloadZxidOffset:], uint64(zxid))
	return p
}

func newDisk(t testing.TB) *vfs.Mem {
	t.Helper()
	disk := vfs.NewMem()
	must(t, disk.MkdirAll(dir))
	must(t, disk.SyncDir(""))
	must(t, disk.SyncDir("data"))
	return disk
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write appends the zxids to a new Log and syncs once.
func write(t testing.TB, disk vfs.FS, last zk.Zxid, options Options, zxids ...zk.Zxid) {
	t.Helper()
	log, err := Open(disk, dir, last, options)
	must(t, err)
	for _, zxid := range zxids {
		must(t, log.Append(zxid, payload(zxid, 40+int(zxid)%50)))
	}
	must(t, log.Close())
}

// read returns the zxids after after, the torn end and the error.
func read(disk vfs.FS, after zk.Zxid) ([]zk.Zxid, *Torn, error) {
	return readWith(disk, after, ReadOptions{})
}

func readWith(disk vfs.FS, after zk.Zxid, options ReadOptions) ([]zk.Zxid, *Torn, error) {
	reader, err := NewReader(disk, dir, after, options)
	if err != nil {
		return nil, nil, err
	}
	defer reader.Close()
	var zxids []zk.Zxid
	for {
		record, err := reader.Next()
		if err == io.EOF {
			return zxids, reader.Torn(), nil
		}
		if err != nil {
			return zxids, nil, err
		}
		if want := payload(record.Zxid, len(record.Payload)); !bytes.Equal(record.Payload, want) {
			return zxids, nil, fmt.Errorf("payload of %s differs", record.Zxid)
		}
		zxids = append(zxids, record.Zxid)
	}
}

func content(t testing.TB, disk vfs.FS, name string) []byte {
	t.Helper()
	p, err := vfs.ReadFile(disk, filepath.Join(dir, name), 1<<30)
	must(t, err)
	return p
}

func put(t testing.TB, disk vfs.FS, name string, p []byte) {
	t.Helper()
	must(t, vfs.ReplaceFile(disk, filepath.Join(dir, name), filepath.Join(dir, "tmp"), p))
}

func sequence(first, last zk.Zxid) []zk.Zxid {
	var zxids []zk.Zxid
	for zxid := first; zxid <= last; zxid++ {
		zxids = append(zxids, zxid)
	}
	return zxids
}

// The first record of a real ensemble: createSession with the digest of the
// empty tree, written by ZooKeeper 3.9.
func TestBytesAreThoseOfZooKeeper(t *testing.T) {
	want, err := hex.DecodeString("5a4b4c47000000020000000000000000" + "00000000bd060aaa00000030" +
		"0300001e4d0d0000" + "00000000" + "0000000100000001" + "000001a1fac0ee69" + "fffffff6" + "00002710" +
		"00000002" + "0000000051c6d660" + "42")
	must(t, err)
	disk := newDisk(t)
	log, err := Open(disk, dir, 0, Options{PreallocBytes: 64 << 10})
	must(t, err)
	must(t, log.Append(0x100000001, want[28:len(want)-1]))
	must(t, log.Sync())
	got := content(t, disk, "log.100000001")
	if len(got) != 65552 {
		t.Errorf("length %d, ZooKeeper preallocates to 65552", len(got))
	}
	if !bytes.Equal(got[:len(want)], want) || !isZero(got[len(want):]) {
		t.Errorf("content\n%x\nwant\n%x", got[:len(want)], want)
	}
}

func TestRecordsAreReadFromAnyZxidOverSegments(t *testing.T) {
	disk := newDisk(t)
	write(t, disk, 0, Options{PreallocBytes: 4096}, sequence(1, 5)...)
	write(t, disk, 5, Options{}, sequence(6, 6)...)
	write(t, disk, 6, Options{PreallocBytes: 64}, append(sequence(7, 30), 0x100000001, 0x100000002, 0x300000001)...)
	all := append(sequence(1, 30), 0x100000001, 0x100000002, 0x300000001)
	for i := range all {
		got, torn, err := read(disk, all[i])
		if err != nil || torn != nil || fmt.Sprint(got) != fmt.Sprint(all[i+1:]) {
			t.Fatalf("after %s: %v %v %v", all[i], got, torn, err)
		}
	}
	got, _, err := read(disk, -1)
	if err != nil || len(got) != len(all) {
		t.Fatalf("from the beginning: %v %v", got, err)
	}
}

func TestAppendRefusesWhatDoesNotFollow(t *testing.T) {
	for _, c := range []struct{ last, next zk.Zxid }{
		{0, 2}, {5, 5}, {5, 4}, {5, 7}, {0x100000005, 0x200000002}, {0x100000005, 0x200000000}, {0x100000005, 0x6}, {0x1ffffffff, 0x200000000},
	} {
		log, err := Open(newDisk(t), dir, c.last, Options{})
		must(t, err)
		if err := log.Append(c.next, payload(c.next, 40)); !errors.Is(err, ErrGap) {
			t.Errorf("%s after %s: %v", c.next, c.last, err)
		}
		if err := log.Append(c.last+1, payload(c.last+1, 40)); err == nil {
			t.Errorf("%s: an error of a log must be final", c.next)
		}
	}
	log, err := Open(newDisk(t), dir, 0, Options{PayloadBytesMax: 100})
	must(t, err)
	if err := log.Append(1, payload(1, 101)); err == nil {
		t.Error("a payload above the limit was accepted: no server could read it again")
	}
}

func TestGapIsRefusedUnlessTheReaderStartsAfterIt(t *testing.T) {
	disk := newDisk(t)
	write(t, disk, 0, Options{}, sequence(1, 5)...)
	write(t, disk, 7, Options{}, sequence(8, 9)...)
	if _, _, err := read(disk, 3); !vfs.IsCorruption(err) || !strings.Contains(err.Error(), "log.8") {
		t.Errorf("a gap was read over: %v", err)
	}
	if got, _, err := read(disk, 7); err != nil || len(got) != 2 {
		t.Errorf("after the gap: %v %v", got, err)
	}
	log, err := Open(disk, dir, 9, Options{})
	must(t, err)
	must(t, log.Reset(20))
	must(t, log.Append(21, payload(21, 40)))
	must(t, log.Reset(0x100000000))
	must(t, log.Append(0x100000001, payload(0x100000001, 40)))
	must(t, log.Close())
	if got, _, err := read(disk, 20); err != nil || len(got) != 2 {
		t.Errorf("after a snapshot: %v %v", got, err)
	}
}

func TestDurabilityProtocol(t *testing.T) {
	disk := newDisk(t)
	trace := &vfs.Trace{}
	log, err := Open(&vfs.Faulty{Disk: disk, Before: trace.Before}, dir, 0, Options{PreallocBytes: 1024})
	must(t, err)
	check := func(title, want string) {
		t.Helper()
		if got := trace.Take(); got != strings.TrimPrefix(want, "\n") {
			t.Errorf("%s:\n%swant:%s", title, got, want)
		}
	}
	check("open removes what a crash left", `
remove reserve
`)
	must(t, log.Ready())
	check("the first segment is made ready before its zxid is known", `
create reserve
write reserve 16
allocate reserve 1040
sync reserve
`)
	must(t, log.Append(1, payload(1, 40)))
	must(t, log.Append(2, payload(2, 40)))
	must(t, log.Sync())
	check("one write and one sync for a batch, and the mark and the name once", `
create synced
rename reserve -> log.1
write log.1 106
sync log.1
syncdir version-2
write synced 20
`)
	must(t, log.Append(3, payload(3, 40)))
	must(t, log.Sync())
	must(t, log.Sync())
	must(t, log.Ready())
	check("nothing more for the next", `
write log.1 53
sync log.1
write synced 20
`)
	must(t, log.Append(4, payload(4, 700)))
	must(t, log.Sync())
	must(t, log.Ready())
	check("space is taken ahead of need", `
write log.1 713
sync log.1
write synced 20
allocate log.1 2064
`)
	log.Roll()
	must(t, log.Append(5, payload(5, 40)))
	must(t, log.Sync())
	check("the old segment is synced before the new one is acknowledged", `
create reserve
write reserve 16
allocate reserve 1040
sync reserve
write reserve 8
truncate log.1 888
sync log.1
rename reserve -> log.5
write log.5 53
sync log.5
syncdir version-2
write synced 20
`)
	must(t, log.Close())
	check("close gives space back", `
truncate log.5 69
`)
}

func TestSegmentsRollBySizeAndPurgeKeepsWhatIsNeeded(t *testing.T) {
	disk := newDisk(t)
	write(t, disk, 0, Options{SegmentBytesMax: 300}, sequence(1, 20)...)
	segments, err := Segments(disk, dir)
	must(t, err)
	if len(segments) < 4 {
		t.Fatalf("segments %v", segments)
	}
	limit := segments[2].First + 1
	deleted, err := Purge(disk, dir, limit)
	must(t, err)
	if len(deleted) != 2 {
		t.Errorf("purge below %s deleted %v of %v", limit, deleted, segments)
	}
	if got, _, err := read(disk, limit); err != nil || fmt.Sprint(got) != fmt.Sprint(sequence(limit+1, 20)) {
		t.Errorf("after the limit: %v %v", got, err)
	}
	if _, err = Purge(disk, dir, 1000); err != nil {
		t.Fatal(err)
	}
	if left, _ := Segments(disk, dir); len(left) != 1 {
		t.Errorf("left %v, the newest must stay", left)
	}
}

// TestSpaceIsTakenInBoundedSteps: a start after a crash reads the space that was allocated
// ahead, and a disk with less free space than that would be full.
// Without preallocation, space is taken by writing, and none is kept.
func TestNothingIsReservedWithoutPreallocation(t *testing.T) {
	trace := &vfs.Trace{}
	log, err := Open(&vfs.Faulty{Disk: newDisk(t), Before: trace.Before}, dir, 0, Options{})
	must(t, err)
	trace.Take()
	for range 2 {
		must(t, log.Reserve(1<<20))
		if got := trace.Take(); got != "" || log.SpaceBytes() != 0 {
			t.Fatalf("%d bytes of space, with\n%s", log.SpaceBytes(), got)
		}
		must(t, log.Append(log.Last()+1, payload(log.Last()+1, 40)))
		must(t, log.Sync())
		trace.Take()
	}
	must(t, log.Close())
}

// A log that has lost the name of the file that it writes to, or will write to, says so.
func TestLogWithoutItsFilesSaysSo(t *testing.T) {
	for _, name := range []string{"log.1", reserveName} {
		disk := &openFiles{FS: newDisk(t)}
		log, err := Open(disk, dir, 0, Options{PreallocBytes: 4096})
		must(t, err)
		must(t, log.There())
		must(t, log.Ready())
		must(t, log.There())
		must(t, log.Append(1, payload(1, 40)))
		must(t, log.Sync())
		log.Roll()
		must(t, log.Ready())
		must(t, log.There())
		must(t, disk.Remove(filepath.Join(dir, name)))
		if log.There() == nil {
			t.Errorf("%s is gone, and nothing says so", name)
		}
	}
}

// Close of a server releases space in the file that a copy is being made of.
func TestReaderAcceptsThatAFileBecomesShorter(t *testing.T) {
	disk := newDisk(t)
	log, err := Open(disk, dir, 0, Options{PreallocBytes: 4 * readBytes})
	must(t, err)
	const size = readBytes / 2
	for zxid := zk.Zxid(1); zxid <= 3; zxid++ {
		must(t, log.Append(zxid, payload(zxid, size)))
	}
	must(t, log.Sync())
	reader, err := NewReader(disk, dir, 0, ReadOptions{})
	must(t, err)
	for zxid := zk.Zxid(1); zxid <= 3; zxid++ {
		if record, err := reader.Next(); err != nil || record.Zxid != zxid {
			t.Fatalf("%v %v, want %s", record.Zxid, err, zxid)
		}
		if zxid == 1 {
			must(t, log.Close())
		}
	}
	if _, err := reader.Next(); err != io.EOF || reader.Torn() != nil {
		t.Fatalf("%v %v, want the end", err, reader.Torn())
	}
}

func TestSpaceIsTakenInBoundedSteps(t *testing.T) {
	disk := newDisk(t)
	disk.SetCapacity(1 << 30)
	log, err := Open(disk, dir, 0, Options{PreallocBytes: 2 << 30})
	must(t, err)
	must(t, log.Ready())
	must(t, log.Append(1, payload(1, 100)))
	must(t, log.Sync())
	file, err := disk.Open(filepath.Join(dir, SegmentName(1)))
	must(t, err)
	size, err := file.Size()
	must(t, err)
	if size > segmentHeadBytes+PreallocBytesMax || log.SpaceBytes() == 0 {
		t.Errorf("a segment of %d bytes, with %d to come", size, log.SpaceBytes())
	}
	must(t, file.Close())
	must(t, log.Close())
}

func TestTruncate(t *testing.T) {
	build := func() *vfs.Mem {
		disk := newDisk(t)
		write(t, disk, 0, Options{PreallocBytes: 4096}, sequence(1, 5)...)
		write(t, disk, 5, Options{PreallocBytes: 4096}, sequence(6, 9)...)
		write(t, disk, 9, Options{}, 0x100000001, 0x100000002)
		return disk
	}
	for _, last := range []zk.Zxid{1, 3, 5, 6, 9, 0x100000001, 0x100000002} {
		disk := build()
		must(t, Truncate(disk, dir, last, ReadOptions{}))
		disk = disk.CrashClone(0, 1)
		got, torn, err := read(disk, 0)
		if err != nil || torn != nil || len(got) == 0 || got[len(got)-1] != last {
			t.Errorf("to %s: %v %v %v", last, got, torn, err)
		}
	}
	for _, last := range []zk.Zxid{10, 0x100000000, 0x100000003, 0x200000001} {
		disk := build()
		if err := Truncate(disk, dir, last, ReadOptions{}); !errors.Is(err, ErrNotInLog) {
			t.Errorf("to absent %s: %v", last, err)
		}
		if got, _, err := read(disk, 0); err != nil || len(got) != 11 {
			t.Errorf("truncation to absent %s changed the log: %v %v", last, got, err)
		}
	}
	disk := build()
	must(t, DropAfter(disk, dir, 0x100000000, ReadOptions{}))
	if got, _, err := read(disk, 0); err != nil || len(got) != 9 {
		t.Errorf("drop after a snapshot: %v %v", got, err)
	}
	must(t, DropAfter(disk, dir, 0, ReadOptions{}))
	if left, _ := Segments(disk, dir); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}
