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
	next(3) // reported as committed, and not there yet
	small := Options{SegmentBytesMax: 400, PreallocBytes: 1 << 10}
	write(t, disk, 0, small, sequence(1, 5)...)
	next(3, 1, 2, 3)
	next(9, 4, 5) // the others are not there yet
	next(5)
	write(t, disk, 5, small, sequence(6, 40)...)
	if segments, _ := Segments(disk, dir); len(segments) < 3 {
		t.Fatalf("%d segments", len(segments))
	}
	next(9, 6, 7, 8, 9)
	_, err := Purge(disk, dir, 30)
	must(t, err)
	next(40, sequence(30, 40)...) // from the first one that is left
	stop := errors.New("enough")
	write(t, disk, 40, small, sequence(41, 43)...)
	if err := tail.Read(43, func(zk.Zxid, []byte) error { return stop }); err != stop {
		t.Errorf("the visitor's error is %v", err)
	}
	next(43, 42, 43)
}

// The longest payload that a server may write is read as any other, a longer one is not.
func TestTailReadsUpToItsLimit(t *testing.T) {
	disk := newDisk(t)
	log, err := Open(disk, dir, 0, Options{})
	must(t, err)
	must(t, log.Append(1, payload(1, 200)))
	must(t, log.Append(2, payload(2, 201)))
	must(t, log.Close())
	var got []zk.Zxid
	must(t, NewTail(disk, dir, 0, 200).Read(2, func(zxid zk.Zxid, _ []byte) error { got = append(got, zxid); return nil }))
	if !slices.Equal(got, sequence(1, 1)) {
		t.Errorf("read %v with a limit of 200 bytes", got)
	}
}

// A leader that was alone is told by the next one to truncate what nobody else has.
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
