package txnlog

import (
	"path/filepath"
	"testing"

	"github.com/conclave-project/conclave/internal/vfs"
)

// The beginning of the zeros is found for every end, in a file of more than one read.
func TestZerosAtTheEnd(t *testing.T) {
	const size = 2*readBytes + 100
	disk := vfs.NewMem()
	file, err := disk.Create(filepath.Join("/", "f"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	check := func(want int64) {
		t.Helper()
		if end, all, err := writtenEnd(file); err != nil || end != want || all != size {
			t.Fatalf("the zeros begin at %d (%v), want %d", end, err, want)
		}
	}
	check(segmentHeadBytes)
	for _, edge := range []int64{segmentHeadBytes + 4, 100, 4 << 10, readBytes, size - readBytes - 4<<10, size - readBytes, size - 8<<10, size - 4<<10, size} {
		for end := edge - 3; end <= min(size, edge+3); end++ {
			if _, err := file.WriteAt([]byte{1}, end-1); err != nil {
				t.Fatal(err)
			}
			check(end)
			if _, err := file.WriteAt([]byte{0}, end-1); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// However far behind zeros there is data, the zeros are no clean end of the log. A crash may
// have left the data, within its reach (txnlog-L5); farther off the log is refused.
func TestWhatStandsFarBehindZerosIsFound(t *testing.T) {
	disk := newDisk(t)
	write(t, disk, 0, Options{}, sequence(1, 3)...)
	whole := content(t, disk, "log.1")
	for _, zeros := range []int{readBytes, 3*readBytes + 1, 16 << 20} {
		put(t, disk, "log.1", append(append(whole[:len(whole):len(whole)], make([]byte, zeros)...), 1))
		got, torn, err := read(disk, 0)
		if far := int64(zeros) > (ReadOptions{}).unsyncedMax(); far != (err != nil) || !far && torn == nil {
			t.Errorf("%d zeros: %d records, torn %v, %v", zeros, len(got), torn, err)
		}
	}
}
