package txnlog

import (
	"errors"
	"slices"
	"testing"

	"github.com/conclave-project/conclave/internal/vfs"
)

// A sync that fails may leave records in the memory of the machine that are never
// written. The process ends, the next one reads them: they must be on disk before
// anybody rests on them.
func TestRecordsOfAFailedSyncAreWrittenAgain(t *testing.T) {
	for _, prealloc := range []int64{0, 1 << 16} {
		disk := newDisk(t)
		failing := false
		faulty := &vfs.Faulty{Disk: disk, Before: func(op vfs.Op) error {
			if failing && op.Kind == vfs.KindSync {
				return errors.New("input/output error")
			}
			return nil
		}}
		log, err := Open(faulty, dir, 0, Options{PreallocBytes: prealloc})
		must(t, err)
		for _, zxid := range sequence(1, 3) {
			must(t, log.Append(zxid, payload(zxid, 50)))
		}
		must(t, log.Sync())
		for _, zxid := range sequence(4, 40) {
			must(t, log.Append(zxid, payload(zxid, 50)))
		}
		failing = true
		if log.Sync() == nil {
			t.Fatal("the sync does not fail")
		}

		next := disk.KillClone()
		got, torn, err := read(next, 0)
		must(t, err)
		must(t, MakeDurable(next, dir, torn))
		after, _, err := read(next.CrashClone(0, 1), 0)
		if err != nil || !slices.Equal(got, after) || len(got) != 40 {
			t.Errorf("prealloc %d: read %v, after a power loss %v, %v", prealloc, got, after, err)
		}
	}
}
