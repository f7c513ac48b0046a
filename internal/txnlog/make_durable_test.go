package txnlog

import (
	"errors"
	"slices"
	"testing"

	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// A sync that fails may leave records in the memory of the machine that are never written. The
// process ends, and the next one reads them: they must be on disk before anybody relies on
// them.
func TestRecordsOfAFailedSyncAreWrittenAgain(t *testing.T) {
	for _, test := range []struct {
		prealloc int64
		records  []int // bytes of the records after the sync
		limit    int   // bytes of one record
	}{
		{0, slices.Repeat([]int{50}, 37), 0},
		{1 << 16, slices.Repeat([]int{50}, 37), 0},
		{64 << 20, []int{3 << 20, 12 << 20}, 32 << 20}, // jute.maxbuffer is 16 MiB; the second syncs
	} {
		disk := newDisk(t)
		failing := false
		faulty := &vfs.Faulty{Disk: disk, Before: func(op vfs.Op) error {
			if failing && op.Kind == vfs.KindSync {
				return errors.New("input/output error")
			}
			return nil
		}}
		options := ReadOptions{PayloadBytesMax: test.limit}
		log, err := Open(faulty, dir, 0, Options{PreallocBytes: test.prealloc, PayloadBytesMax: test.limit})
		must(t, err)
		for _, zxid := range sequence(1, 3) {
			must(t, log.Append(zxid, payload(zxid, 50)))
		}
		must(t, log.Sync())
		failing = true
		for i, bytes := range test.records {
			if err = log.Append(zk.Zxid(4+i), payload(zk.Zxid(4+i), bytes)); err != nil {
				break
			}
		}
		if err == nil && log.Sync() == nil {
			t.Fatal("the sync does not fail")
		}

		next := disk.KillClone()
		got, torn, err := readWith(next, 0, options)
		must(t, err)
		must(t, MakeDurable(next, dir, torn, options))
		after, _, err := readWith(next.CrashClone(0, 1), 0, options)
		if err != nil || !slices.Equal(got, after) || len(got) != 3+len(test.records) {
			t.Errorf("%+v: read %v, after a power loss %v, %v", test, got, after, err)
		}
	}
}
