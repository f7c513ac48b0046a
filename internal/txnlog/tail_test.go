package txnlog

import (
	"errors"
	"slices"
	"testing"

	"github.com/conclave-project/conclave/zk"
)

func TestTailFollowsWhatIsAppended(t *testing.T) {
	disk := newDisk(t)
	tail := NewTail(disk, dir, 0, PayloadBytesMax)
	next := func(until zk.Zxid, want ...zk.Zxid) {
		t.Helper()
		var got []zk.Zxid
		must(t, tail.Read(until, func(zxid zk.Zxid, p []byte) error {
			if !slices.Equal(p, payload(zxid, len(p))) {
				t.Errorf("%v: another payload", zxid)
			}
			got = append(got, zxid)
			return nil
		}))
		if !slices.Equal(got, want) {
			t.Errorf("up to %v: %v, want %v", until, got, want)
		}
	}
	next(0)
	next(3) // told as committed, and not there yet
	small := Options{SegmentBytesMax: 400, PreallocBytes: 1 << 10}
	write(t, disk, 0, small, sequence(1, 5)...)
	next(3, 1, 2, 3)
	next(5, 4, 5)
	next(5)
	write(t, disk, 5, small, sequence(6, 40)...)
	if segments, _ := Segments(disk, dir); len(segments) < 3 {
		t.Fatalf("%d segments", len(segments))
	}
	next(9, 6, 7, 8, 9)
	_, err := Purge(disk, dir, 30)
	must(t, err)
	next(40, sequence(30, 40)...) // from the first that is left
	stop := errors.New("enough")
	write(t, disk, 40, small, sequence(41, 43)...)
	if err := tail.Read(43, func(zk.Zxid, []byte) error { return stop }); err != stop {
		t.Errorf("the visitor's error is %v", err)
	}
	next(43, 42, 43)
}

// A leader that was alone is told by the next one to cut what nobody else has.
func TestTailFollowsAHistoryThatWasCut(t *testing.T) {
	disk := newDisk(t)
	write(t, disk, 0, Options{}, sequence(1, 9)...)
	tail := NewTail(disk, dir, 0, PayloadBytesMax)
	var seen []zk.Zxid
	read := func(until zk.Zxid) {
		t.Helper()
		must(t, tail.Read(until, func(zxid zk.Zxid, _ []byte) error { seen = append(seen, zxid); return nil }))
	}
	read(9)
	must(t, Truncate(disk, dir, 6, ReadOptions{}))
	second := zk.MakeZxid(1, 1)
	write(t, disk, 6, Options{}, second, second+1)
	for range 3 {
		read(second + 1)
	}
	if want := append(sequence(1, 9), second, second+1); !slices.Equal(seen, want) {
		t.Errorf("%v, want %v", seen, want)
	}
}
