package txnlog

import (
	"io"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

func TestWhatFollows(t *testing.T) {
	for _, c := range []struct {
		last, next zk.Zxid
		want       bool
	}{
		{0x200000005, 0x200000006, true}, {0x200000005, 0x200000007, false}, {0x200000005, 0x200000005, false},
		{0x200000005, 0x200000004, false}, {0x200000005, 0x300000001, true}, {0x200000005, 0x900000001, true},
		{0x200000005, 0x300000000, false}, {0x200000005, 0x300000002, false}, {0x300000001, 0x200000001, false}, {0x200000005, 0x200000001, false},
		{0xffffffff, 0x100000000, true}, {0xfffffffe, 0x100000000, false}, {0xffffffff, 0x100000001, true},
		{-1, 0x700000009, true}, {-1, 0, false}, {0, 1, true}, {0, 2, false}, {0, 0x100000001, true},
	} {
		if got := Follows(c.last, c.next); got != c.want {
			t.Errorf("%s after %s: %t", c.next, c.last, got)
		}
	}
}

// Apache's standalone server counts on over the end of an epoch.
func TestLogOfAServerAloneThatHasCountedOnIsRead(t *testing.T) {
	const first, last = zk.Zxid(0xfffffffe), zk.Zxid(0x100000001)
	disk := vfs.NewMem()
	if err := disk.MkdirAll("/d"); err != nil {
		t.Fatal(err)
	}
	f, err := disk.Create("/d/" + SegmentName(first))
	if err != nil {
		t.Fatal(err)
	}
	w := NewWriter(f)
	for z := first; z <= last; z++ {
		if err := w.Write(txn.Append(nil, &zk.TxnHeader{Session: 1, Zxid: z}, &zk.Txn{Op: zk.OpError}, zk.Digest{})); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := NewReader(disk, "/d", first-1, ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for z := first; z <= last; z++ {
		if got, err := r.Next(); err != nil || got.Zxid != z {
			t.Fatalf("%s: %s, %v", z, got.Zxid, err)
		}
	}
	if _, err := r.Next(); err != io.EOF {
		t.Error(err)
	}
}

// If the last records of an epoch are lost without a trace, and the next epoch begins a
// segment, only the head of that segment reveals the loss.
func TestRecordsLostAtTheEndOfAnEpochAreMissed(t *testing.T) {
	const next = zk.Zxid(0x100000001)
	lose := func(known bool) vfs.FS {
		disk := newDisk(t)
		write(t, disk, 0, Options{}, sequence(1, 5)...)
		first := content(t, disk, SegmentName(1))
		write(t, disk, 5, Options{}, next, next+1)
		put(t, disk, SegmentName(1), first[:len(first)-2*53])
		if !known { // as ZooKeeper writes it
			head := content(t, disk, SegmentName(next))
			clear(head[predecessorOffset:segmentHeadBytes])
			put(t, disk, SegmentName(next), head)
		}
		return disk
	}
	for _, after := range []zk.Zxid{0, 2, 3, 4} {
		if got, _, err := read(lose(true), after); !vfs.IsCorruption(err) || !strings.Contains(err.Error(), SegmentName(next)) {
			t.Errorf("after %s: %v, %v", after, got, err)
		}
	}
	for _, after := range []zk.Zxid{5, next} { // a snapshot has them
		if got, _, err := read(lose(true), after); err != nil || len(got) != int(next+1-max(after, next-1)) {
			t.Errorf("after %s: %v, %v", after, got, err)
		}
	}
	if got, _, err := readWith(lose(true), 0, ReadOptions{AllowGaps: true}); err != nil || len(got) != 5 {
		t.Errorf("with gaps: %v, %v", got, err)
	}
	if got, _, err := read(lose(false), 0); err != nil || len(got) != 5 {
		t.Errorf("a log of ZooKeeper's: %v, %v", got, err)
	}
}
