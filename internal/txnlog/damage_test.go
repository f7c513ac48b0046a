package txnlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// recordEnds are the offsets after each record that write made in one segment.
func recordEnds(zxids []zk.Zxid) []int {
	ends, at := []int{segmentHeadBytes}, segmentHeadBytes
	for _, zxid := range zxids {
		at += recordFrameBytes + 40 + int(zxid)%50
		ends = append(ends, at)
	}
	return ends
}

func wholeBefore(ends []int, at int) int {
	n := 0
	for n+1 < len(ends) && ends[n+1] <= at {
		n++
	}
	return n
}

// A crash of the process ends a write at any byte: the file ends there or, with preallocation,
// zeros begin.
func TestLastSegmentCutAtEveryByteKeepsEveryWholeRecord(t *testing.T) {
	zxids := sequence(1, 12)
	disk := newDisk(t)
	write(t, disk, 0, Options{}, zxids...)
	whole := content(t, disk, "log.1")
	ends := recordEnds(zxids)
	for at := 0; at <= len(whole); at++ {
		filled := make([]byte, len(whole)+4096)
		copy(filled, whole[:at])
		for kind, p := range map[string][]byte{"cut": whole[:at], "zeros": filled} {
			put(t, disk, "log.1", p)
			got, torn, err := read(disk, 0)
			if err != nil || len(got) != wholeBefore(ends, at) {
				t.Fatalf("%s at %d: %v %v", kind, at, got, err)
			}
			must(t, MakeDurable(disk, dir, torn, ReadOptions{}))
			if again, torn, err := read(disk, 0); err != nil || torn != nil || len(again) != len(got) {
				t.Fatalf("%s at %d, made durable: %v %v %v", kind, at, again, torn, err)
			}
		}
	}
}

// A changed bit must never silently cost an acknowledged record, wherever it is: in the head, a
// checksum, a length, a payload or a trailer, of a middle record or the last one, in a segment
// with or without padding.
func TestEveryChangedByteIsRefused(t *testing.T) {
	zxids := sequence(1, 12)
	for _, prealloc := range []int{0, 4096} {
		disk := newDisk(t)
		write(t, disk, 0, Options{}, zxids...)
		whole := append(content(t, disk, "log.1"), make([]byte, prealloc)...)
		end := recordEnds(zxids)[len(zxids)]
		for at := 0; at < end; at++ {
			if at >= 8 && at < segmentHeadBytes {
				continue // dbid: has no meaning, ZooKeeper does not read it either
			}
			for _, mask := range []byte{0x01, 0x10, 0x80, 0xff, whole[at]} {
				if mask == 0 || mask == recordTrailer {
					continue // a trailer that is zero necessarily looks torn
				}
				damaged := append([]byte(nil), whole...)
				damaged[at] ^= mask
				put(t, disk, "log.1", damaged)
				got, torn, err := read(disk, 0)
				var corruption *vfs.Corruption
				if !errors.As(err, &corruption) {
					t.Fatalf("padding %d, byte %d ^ %#x: %v %v %v", prealloc, at, mask, got, torn, err)
				}
				if corruption.Remedy == "" || corruption.Found == "" {
					t.Fatalf("no help in %v", corruption)
				}
			}
		}
	}
}

// The last record with its trailer zeroed cannot be told from a torn one, not even in a segment
// that was not the newest. Then the zxid that comes next decides.
func TestTornEndOfAnOlderSegmentIsJudgedByWhatFollows(t *testing.T) {
	for _, c := range []struct {
		next    zk.Zxid
		refused bool
	}{{5, false}, {6, true}, {0x100000001, false}, {0x100000002, true}} {
		disk := newDisk(t)
		write(t, disk, 0, Options{}, sequence(1, 5)...)
		torn := content(t, disk, "log.1")
		put(t, disk, "log.1", torn[:len(torn)-20])
		write(t, disk, c.next-1, Options{}, c.next)
		got, _, err := read(disk, 0)
		if vfs.IsCorruption(err) != c.refused || err != nil != c.refused {
			t.Errorf("followed by %s: %v %v", c.next, got, err)
		}
	}
}

func TestSectorsLostFromTheLastBatchAreATornEnd(t *testing.T) {
	disk := newDisk(t)
	log, err := Open(disk, dir, 0, Options{PreallocBytes: 64 << 10})
	must(t, err)
	must(t, log.Append(1, payload(1, 700)))
	must(t, log.Sync())
	for zxid := zk.Zxid(2); zxid <= 6; zxid++ {
		must(t, log.Append(zxid, payload(zxid, 1500)))
	}
	must(t, log.flush())
	for seed := int64(0); seed < 300; seed++ {
		crashed := disk.CrashClone(50, seed)
		// The name was synced with the first record.
		got, torn, err := read(crashed, 0)
		if err != nil || len(got) < 1 {
			t.Fatalf("seed %d: %v %v", seed, got, err)
		}
		must(t, MakeDurable(crashed, dir, torn, ReadOptions{}))
		next := got[len(got)-1] + 1
		write(t, crashed, next-1, Options{PreallocBytes: 4096}, next)
		if again, _, err := read(crashed.CrashClone(0, 0), 0); err != nil || len(again) != len(got)+1 {
			t.Fatalf("seed %d, went on: %v %v", seed, again, err)
		}
	}
}

// A record may begin so near the end of a sector that the sector contains only a part of its
// checksum. If the crash took exactly that part, the record is whole except for some zero
// bytes. That is still a torn end, and no reason to refuse a directory.
func TestSectorThatHadThreeBytesOfAChecksumIsATornEnd(t *testing.T) {
	for within := 5; within < 8; within++ {
		disk := newDisk(t)
		l, err := Open(disk, dir, 0, Options{})
		must(t, err)
		first := vfs.SectorBytes - within - segmentHeadBytes - recordFrameBytes
		must(t, l.Append(1, payload(1, first)))
		must(t, l.Append(2, payload(2, 700)))
		must(t, l.Sync())
		must(t, l.Close())
		must(t, disk.Remove(filepath.Join(dir, MarkName))) // it was not written yet
		whole := content(t, disk, "log.1")
		at := vfs.SectorBytes - within
		damaged := append([]byte(nil), whole...)
		clear(damaged[at:vfs.SectorBytes])
		put(t, disk, "log.1", damaged)
		if got, torn, err := read(disk, 0); err != nil || len(got) != 1 || torn == nil || torn.Offset != int64(at) {
			t.Errorf("%d bytes lost: %v %+v %v, want a torn end at %d", within, got, torn, err, at)
		}
		damaged[len(damaged)-100] ^= 1
		put(t, disk, "log.1", damaged)
		if got, torn, err := read(disk, 0); !vfs.IsCorruption(err) {
			t.Errorf("%d bytes lost and another changed: %v %+v %v", within, got, torn, err)
		}
	}
}

// The sector in which the longest possible record ends, and the next one begins, is lost like any
// other, although the record is longer than what is read at a time.
func TestSectorAtTheEndOfTheLongestRecordIsATornEnd(t *testing.T) {
	const bytesMax = readBytes + 1000
	disk := newDisk(t)
	log, err := Open(disk, dir, 0, Options{PayloadBytesMax: bytesMax})
	must(t, err)
	must(t, log.Append(1, payload(1, bytesMax)))
	must(t, log.Append(2, payload(2, 2000)))
	must(t, log.Close())
	must(t, disk.Remove(filepath.Join(dir, MarkName))) // it was not written yet
	p := content(t, disk, "log.1")
	end := segmentHeadBytes + recordFrameBytes + bytesMax
	clear(p[end/vfs.SectorBytes*vfs.SectorBytes:][:vfs.SectorBytes])
	put(t, disk, "log.1", p)
	got, torn, err := readWith(disk, 0, ReadOptions{PayloadBytesMax: bytesMax})
	if err != nil || len(got) != 0 || torn == nil || torn.Offset != segmentHeadBytes {
		t.Fatalf("%v %+v %v, want a torn end at the first record", got, torn, err)
	}
}

// A record with a changed length, after which less is left than a record has, is judged by the
// zeros or the end after it: its true length is no proof then.
func TestWhatRemainsAfterAChangedLengthMayBeShort(t *testing.T) {
	zxids := sequence(1, 2)
	disk := newDisk(t)
	write(t, disk, 0, Options{}, zxids...)
	whole := content(t, disk, "log.1")
	end := recordEnds(zxids)[1]
	for left := 1; left < recordHeadBytes+payloadBytesMin; left++ {
		p := append([]byte(nil), whole[:end+left]...)
		p[segmentHeadBytes+10] = 0x10 // the length
		p[end+left-1] |= 1
		put(t, disk, "log.1", p)
		if got, torn, err := read(disk, 0); err != nil || len(got) != 0 || torn == nil {
			t.Fatalf("%d bytes left: %v %v %v", left, got, torn, err)
		}
	}
}

// A sector that the disk lost long after it was synced is not a torn end if more follows it
// than a crash can affect.
func TestZeroSectorFarFromTheEndIsRefused(t *testing.T) {
	disk := newDisk(t)
	log, err := Open(disk, dir, 0, Options{})
	must(t, err)
	for zxid := zk.Zxid(1); zxid <= 10; zxid++ {
		must(t, log.Append(zxid, payload(zxid, 900<<10)))
	}
	must(t, log.Close())
	p := content(t, disk, "log.1")
	clear(p[4096:8192])
	put(t, disk, "log.1", p)
	if got, torn, err := read(disk, 0); !vfs.IsCorruption(err) {
		t.Errorf("%v %v %v", got, torn, err)
	}
}

func TestEmptyAndHeadOnlySegmentsAreAccepted(t *testing.T) {
	for size := 0; size <= segmentHeadBytes; size++ {
		disk := newDisk(t)
		write(t, disk, 0, Options{}, sequence(1, 3)...)
		put(t, disk, "log.4", segmentHead()[:size])
		got, torn, err := read(disk, 0)
		if err != nil || len(got) != 3 {
			t.Fatalf("head of %d bytes: %v %v", size, got, err)
		}
		must(t, MakeDurable(disk, dir, torn, ReadOptions{}))
		write(t, disk, 3, Options{}, 4)
		if got, _, err := read(disk, 0); err != nil || len(got) != 4 {
			t.Fatalf("head of %d bytes, went on: %v %v", size, got, err)
		}
	}
}

// Crash before every operation of a run with rolls, resets and growth, and keep nothing, some
// or all of the unsynced data.
func TestCrashAtEveryOperationLosesNothingAcknowledged(t *testing.T) {
	disk := newDisk(t)
	acked, given := zk.Zxid(0), zk.Zxid(0)
	crashes := 0
	crash := func(op vfs.Op) error {
		if !op.Changes() {
			return nil
		}
		for _, c := range []struct {
			keep int
			seed int64
		}{{0, 0}, {100, 0}, {50, 1}, {50, 2}, {20, 3}, {80, 4}} {
			crashes++
			after := disk.CrashClone(c.keep, c.seed+int64(crashes)*10)
			got, torn, err := read(after, 0)
			if err != nil {
				t.Fatalf("before %s, keep %d: %v", op, c.keep, err)
			}
			if zk.Zxid(len(got)) < acked || zk.Zxid(len(got)) > given {
				t.Fatalf("before %s, keep %d: %d records, %d acknowledged, %d given", op, c.keep, len(got), acked, given)
			}
			must(t, MakeDurable(after, dir, torn, ReadOptions{}))
			last := zk.Zxid(len(got))
			write(t, after, last, Options{PreallocBytes: 512}, last+1)
			if again, _, err := read(after.CrashClone(0, 0), 0); err != nil || len(again) != len(got)+1 {
				t.Fatalf("before %s, keep %d, second start: %v %v", op, c.keep, again, err)
			}
		}
		return nil
	}
	log, err := Open(&vfs.Faulty{Disk: disk, Before: crash}, dir, 0, Options{PreallocBytes: 2048})
	must(t, err)
	for batch := 0; batch < 40; batch++ {
		for i := 0; i < 1+batch%4; i++ {
			given++
			must(t, log.Append(given, payload(given, 40+int(given)*37%900)))
		}
		must(t, log.Sync())
		acked = given
		must(t, log.Ready())
		if batch%9 == 8 {
			log.Roll()
		}
	}
	must(t, log.Close())
	t.Logf("%d crashes, %d records", crashes, given)
}

func TestFailedSyncEndsTheLogAndIsNotTrusted(t *testing.T) {
	disk := newDisk(t)
	eio := errors.New("input/output error")
	failing := false
	faulty := &vfs.Faulty{Disk: disk, Before: func(op vfs.Op) error {
		if failing && op.Kind == vfs.KindSync {
			failing = false
			return eio
		}
		return nil
	}}
	log, err := Open(faulty, dir, 0, Options{PreallocBytes: 4096})
	must(t, err)
	must(t, log.Append(1, payload(1, 600)))
	must(t, log.Sync())
	failing = true
	must(t, log.Append(2, payload(2, 600)))
	if err := log.Sync(); !errors.Is(err, eio) {
		t.Fatalf("sync: %v", err)
	}
	appendNext := func() error { return log.Append(3, payload(3, 40)) }
	for i, call := range []func() error{appendNext, log.Sync, log.Ready, log.Close} {
		if err := call(); !errors.Is(err, eio) {
			t.Errorf("call %d after a failed sync: %v", i, err)
		}
	}
	if log.Synced() != 1 {
		t.Errorf("synced %s", log.Synced())
	}
	if got, _, err := read(disk.CrashClone(100, 1), 0); err != nil || len(got) != 1 {
		t.Errorf("after the crash: %v %v", got, err)
	}
}

func TestEveryFailingOperationIsFinal(t *testing.T) {
	eio := errors.New("input/output error")
	for fail := 1; ; fail++ {
		disk := newDisk(t)
		count := 0
		faulty := &vfs.Faulty{Disk: disk, Before: func(op vfs.Op) error {
			if op.Kind == vfs.KindClose {
				return nil
			}
			if count++; count == fail {
				return eio
			}
			return nil
		}}
		acked, err := run(faulty)
		if err == nil {
			return // no operation left to fail
		}
		if !errors.Is(err, eio) {
			t.Fatalf("operation %d: %v", fail, err)
		}
		got, _, err := read(disk.CrashClone(50, int64(fail)), 0)
		if err != nil || len(got) < int(acked) {
			t.Fatalf("operation %d: %v of %d, %v", fail, got, acked, err)
		}
	}
}

func run(disk vfs.FS) (acked zk.Zxid, err error) {
	log, err := Open(disk, dir, 0, Options{PreallocBytes: 1024})
	if err != nil {
		return 0, err
	}
	for zxid := zk.Zxid(1); zxid <= 12; zxid++ {
		if err := log.Append(zxid, payload(zxid, 300)); err != nil {
			return acked, err
		}
		if err := log.Sync(); err != nil {
			return acked, err
		}
		acked = zxid
		if err := log.Ready(); err != nil {
			return acked, err
		}
		if zxid%5 == 0 {
			log.Roll()
		}
	}
	return acked, log.Close()
}

func TestFullDiskIsToldBeforeItIsMetAndServiceResumes(t *testing.T) {
	disk := newDisk(t)
	log, err := Open(disk, dir, 0, Options{PreallocBytes: 8192})
	must(t, err)
	disk.SetCapacity(4096)
	if err := log.Ready(); !errors.Is(err, vfs.ErrNoSpace) {
		t.Fatalf("no space for the first segment: %v", err)
	}
	if left, _ := disk.List(dir); len(left) != 0 {
		t.Fatalf("left on a full disk: %v", left)
	}
	disk.SetCapacity(20000)
	must(t, log.Ready())
	zxid := zk.Zxid(0)
	appendOne := func() {
		t.Helper()
		zxid++
		must(t, log.Append(zxid, payload(zxid, 200)))
		must(t, log.Sync())
	}
	for log.Ready() == nil {
		appendOne()
	}
	if space := log.SpaceBytes(); space < 1024 || space >= 2048 {
		t.Fatalf("space ahead %d", space)
	}
	log.Roll() // a snapshot asks for a new segment that cannot be had
	for inFlight := 0; inFlight < 4; inFlight++ {
		appendOne()
		if err := log.Ready(); !errors.Is(err, vfs.ErrNoSpace) {
			t.Fatalf("full disk: %v", err)
		}
	}
	disk.SetCapacity(-1)
	must(t, log.Ready())
	appendOne()
	must(t, log.Close())
	if got, _, err := read(disk.CrashClone(0, 0), 0); err != nil || zk.Zxid(len(got)) != zxid {
		t.Fatalf("%v %v", got, err)
	}
	if segments, _ := Segments(disk, dir); len(segments) != 2 {
		t.Errorf("segments %v: the roll was forgotten", segments)
	}
}

// A record may be longer than the space that is allocated at a time. Its space can be requested
// before it is given to the log, as often as necessary, in the open segment and in the next.
func TestSpaceForALongRecordCanBeReserved(t *testing.T) {
	for _, rolls := range []bool{false, true} {
		disk := newDisk(t)
		log, err := Open(disk, dir, 0, Options{PreallocBytes: 4096})
		must(t, err)
		must(t, log.Ready())
		must(t, log.Append(1, payload(1, 600)))
		must(t, log.Sync())
		if rolls {
			log.Roll()
			must(t, log.Ready())
		}
		disk.SetCapacity(disk.Used() + 5000)
		const long = 20_000
		for range 2 {
			if err := log.Reserve(long + recordFrameBytes); !errors.Is(err, vfs.ErrNoSpace) || log.Err() != nil {
				t.Fatalf("rolls %v: %v, log %v", rolls, err, log.Err())
			}
		}
		disk.SetCapacity(-1)
		must(t, log.Reserve(long+recordFrameBytes))
		disk.SetCapacity(disk.Used())
		must(t, log.Append(2, payload(2, long)))
		must(t, log.Sync())
		must(t, log.Close())
		if got, torn, err := read(disk, 0); err != nil || torn != nil || len(got) != 2 {
			t.Errorf("rolls %v: %v %+v %v", rolls, got, torn, err)
		}
	}
}

// Without space allocated ahead, a record may be written in part. It waits for space; a process
// that ends before then leaves a torn end.
func TestRecordThatMeetsAFullDiskWaitsForSpace(t *testing.T) {
	disk := newDisk(t)
	log, err := Open(disk, dir, 0, Options{})
	must(t, err)
	must(t, log.Append(1, payload(1, 600)))
	must(t, log.Sync())
	disk.SetCapacity(1000)
	must(t, log.Append(2, payload(2, 600)))
	for range 2 {
		if err := log.Sync(); !errors.Is(err, vfs.ErrNoSpace) || log.Err() != nil || log.Synced() != 1 {
			t.Fatalf("sync: %v, log %v, synced %s", err, log.Err(), log.Synced())
		}
	}
	ended := disk.KillClone()
	ended.SetCapacity(-1)
	got, torn, err := read(ended, 0)
	if err != nil || len(got) != 1 {
		t.Fatalf("%v %v %v", got, torn, err)
	}
	must(t, MakeDurable(ended, dir, torn, ReadOptions{}))
	write(t, ended, 1, Options{}, 2)
	disk.SetCapacity(-1)
	must(t, log.Append(3, payload(3, 40)))
	must(t, log.Sync())
	for disk, want := range map[*vfs.Mem]int{ended: 2, disk.CrashClone(0, 1): 3} {
		if got, torn, err := read(disk, 0); err != nil || torn != nil || len(got) != want {
			t.Errorf("%v %v %v, expected %d records", got, torn, err, want)
		}
	}
}

func FuzzReaderNeverPanicsAndNeverInvents(f *testing.F) {
	disk := vfs.NewMem()
	if err := disk.MkdirAll(dir); err != nil {
		f.Fatal(err)
	}
	log, _ := Open(disk, dir, 0, Options{PreallocBytes: 100})
	for zxid := zk.Zxid(1); zxid < 4; zxid++ {
		_ = log.Append(zxid, payload(zxid, 40))
	}
	_ = log.Sync()
	seed, err := vfs.ReadFile(disk, filepath.Join(dir, "log.1"), 1<<20)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add(seed[:100])
	f.Add([]byte("ZKLG"))
	f.Fuzz(func(t *testing.T, p []byte) {
		disk := vfs.NewMem()
		must(t, disk.MkdirAll(dir))
		put(t, disk, "log.1", p)
		reader, err := NewReader(disk, dir, 0, ReadOptions{PayloadBytesMax: 4096})
		must(t, err)
		defer reader.Close()
		last := zk.Zxid(0)
		for {
			record, err := reader.Next()
			if err != nil {
				break
			}
			if !Follows(last, record.Zxid) {
				t.Fatalf("%s after %s", record.Zxid, last)
			}
			last = record.Zxid
		}
		if torn := reader.Torn(); torn != nil {
			must(t, MakeDurable(disk, dir, torn, ReadOptions{}))
		}
	})
}

func BenchmarkAppend100(b *testing.B)  { benchmarkAppend(b, 100) }
func BenchmarkAppend1000(b *testing.B) { benchmarkAppend(b, 1000) }

// nowhere is a file system whose files discard what is written: what remains is the cost of the
// log itself.
type nowhere struct{ vfs.FS }

type sink struct{ vfs.File }

func (nowhere) Create(string) (vfs.File, error)        { return sink{}, nil }
func (nowhere) OpenReadWrite(string) (vfs.File, error) { return sink{}, nil }
func (nowhere) Rename(string, string) error            { return nil }
func (nowhere) Remove(string) error                    { return nil }
func (nowhere) SyncDir(string) error                   { return nil }
func (sink) Write(p []byte) (int, error)               { return len(p), nil }
func (sink) WriteAt(p []byte, _ int64) (int, error)    { return len(p), nil }
func (sink) Sync() error                               { return nil }
func (sink) Close() error                              { return nil }
func (sink) Allocate(int64) error                      { return nil }
func (sink) Truncate(int64) error                      { return nil }

func benchmarkAppend(b *testing.B, size int) {
	log, err := Open(nowhere{}, dir, 0, Options{PreallocBytes: 64 << 20})
	must(b, err)
	p := payload(0, size)
	b.ReportAllocs()
	b.SetBytes(int64(size))
	for i := 1; i <= b.N; i++ {
		p[payloadZxidOffset+4], p[payloadZxidOffset+5] = byte(i>>24), byte(i>>16)
		p[payloadZxidOffset+6], p[payloadZxidOffset+7] = byte(i>>8), byte(i)
		if err := log.Append(zk.Zxid(i), p); err != nil {
			b.Fatal(err)
		}
		if i%64 == 0 {
			if err := log.Sync(); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkRead100(b *testing.B) {
	disk := newDisk(b)
	log, err := Open(disk, dir, 0, Options{})
	must(b, err)
	const count = 50_000
	for zxid := zk.Zxid(1); zxid <= count; zxid++ {
		must(b, log.Append(zxid, payload(zxid, 100)))
	}
	must(b, log.Close())
	b.ReportAllocs()
	for b.Loop() {
		reader, err := NewReader(disk, dir, 0, ReadOptions{})
		must(b, err)
		records := 0
		for {
			if _, err := reader.Next(); err != nil {
				break
			}
			records++
		}
		if records != count {
			b.Fatal(records)
		}
	}
	b.ReportMetric(float64(count)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

func ExampleSegmentName() {
	fmt.Println(SegmentName(zk.MakeZxid(1, 1)))
	// Output: log.100000001
}

// A whole record above the limit was written with another limit, and is no damage; a damaged one
// is, whatever its length says.
func TestRecordAboveTheLimitIsNoDamage(t *testing.T) {
	disk := newDisk(t)
	log, err := Open(disk, dir, 0, Options{})
	must(t, err)
	must(t, log.Append(1, payload(1, 200)))
	must(t, log.Append(2, payload(2, 201)))
	must(t, log.Close())
	whole := content(t, disk, "log.1")
	_, _, err = readWith(disk, 0, ReadOptions{PayloadBytesMax: 200})
	if long := (*vfs.TooLong)(nil); !errors.As(err, &long) || long.Offset != segmentHeadBytes+recordFrameBytes+200 ||
		long.Bytes != 201 || long.Limit != 200 {
		t.Fatalf("read with a limit of 200 bytes: %v", err)
	}
	for at := len(whole) - 201 - recordFrameBytes; at < len(whole); at++ {
		damaged := append([]byte(nil), whole...)
		damaged[at] ^= 1
		put(t, disk, "log.1", damaged)
		if _, _, err := readWith(disk, 0, ReadOptions{PayloadBytesMax: 200}); !vfs.IsCorruption(err) {
			t.Fatalf("byte %d changed: %v", at, err)
		}
	}
}

// Where an int has 32 bits, the longest length and the frame around it would together be negative.
func TestLongestLengthIsDamageLikeAnyOther(t *testing.T) {
	zxids := sequence(1, 2)
	for _, length := range []uint32{1<<31 - 1, 1<<31 - recordFrameBytes} {
		disk := newDisk(t)
		write(t, disk, 0, Options{}, zxids...)
		p := content(t, disk, "log.1")
		binary.BigEndian.PutUint32(p[recordEnds(zxids)[0]+checksumBytes:], length)
		put(t, disk, "log.1", p)
		if got, torn, err := read(disk, 0); !vfs.IsCorruption(err) && (err != nil || len(got) != 1 || torn == nil) {
			t.Errorf("length %d: %v %v %v", length, got, torn, err)
		}
	}
}
