package txnlog

import (
	"io"
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
		{0x200000005, 0x300000000, false}, {0x200000005, 0x300000002, false}, {0x300000001, 0x200000001, false},
		{0xffffffff, 0x100000000, true}, {0xfffffffe, 0x100000000, false}, {0xffffffff, 0x100000001, true},
		{-1, 0x700000009, true}, {-1, 0, false}, {0, 1, true}, {0, 2, false}, {0, 0x100000001, true},
	} {
		if got := Follows(c.last, c.next); got != c.want {
			t.Errorf("%s after %s: %t", c.next, c.last, got)
		}
	}
}

// Apache's server alone counts on over the end of an epoch.
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
