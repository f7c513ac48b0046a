package backup_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/backup"
	"github.com/conclave-project/conclave/internal/datadir"
	"github.com/conclave-project/conclave/internal/replicadisk"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/internal/txnlog"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// Right after a restore, or after a leader's state, a backup ends with a snapshot alone. The
// end of that epoch may be purged from the log before the next take. Then the first record of
// the next epoch would follow, and the acknowledged transactions in between would be missing.
func TestPurgedTailOfAnEpochIsAGap(t *testing.T) {
	for _, digests := range []bool{false, true} {
		t.Run(fmt.Sprint("digests ", digests), func(t *testing.T) {
			disk := vfs.NewMem()
			store, err := datadir.Open(disk, datadir.Options{DataDir: "/data"})
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			must(err)
			defer store.Close()
			live := tree.New(tree.Options{ExtendedTypes: true})
			var log *txnlog.Log
			var out tree.Applied
			at := time.Now().Add(-time.Hour).UnixMilli()
			write := func(zxid zk.Zxid, path string) {
				t.Helper()
				h := zk.TxnHeader{Session: 1, Cxid: 1, Zxid: zxid, Time: at, Op: zk.OpCreate}
				x := zk.Txn{Op: zk.OpCreate, Path: path, ACL: zk.OpenACL(), ParentCversion: -1}
				live.Apply(&h, &x, &out)
				d := zk.Digest{}
				if digests {
					d = live.Digest()
				}
				must(log.Append(zxid, txn.Append(nil, &h, &x, d)))
				must(log.Sync())
			}
			snapshot := func() {
				t.Helper()
				_, err := replicadisk.Begin(live, nil).Save(store, nil)
				must(err)
			}
			source := func(committed zk.Zxid) backup.Source {
				return backup.Source{FS: disk, SnapDir: store.SnapDir(), LogDir: store.LogDir(), Now: time.Now,
					Committed: func(context.Context) (zk.Zxid, error) { return committed, nil }}
			}
			place := backup.OpenDir(vfs.NewMem(), "/")
			four, five := zk.MakeZxid(4, 0), zk.MakeZxid(5, 0)

			live.SetLastZxid(four + 10) // as conclave restore leaves it, or a leader's SNAP: one snapshot, no log
			snapshot()
			log, err = store.OpenLog(four + 10)
			must(err)
			taken, err := open(t, place).Take(t.Context(), source(four+10), backup.Options{})
			must(err)
			t.Logf("first: %+v", taken)

			write(four+11, "/acknowledged")
			must(log.Close()) // the server is started again, and a new leader elected
			log, err = store.OpenLog(four + 11)
			must(err)
			write(five+1, "/x1")
			for i := range 3 { // some days
				snapshot()
				write(five+2+zk.Zxid(i), fmt.Sprintf("/x%d", 2+i))
			}
			purged, err := store.Purge(3)
			must(err)
			t.Logf("purged %+v", purged)

			taken, err = open(t, place).Take(t.Context(), source(five+4), backup.Options{})
			t.Logf("second: %+v %v", taken, err)
			if err == nil && !taken.Gap {
				t.Error("the log since the last take was purged, and the take says that there is no gap")
			}
			state, err := open(t, place).Load(t.Context(), backup.Moment{Zxid: five + 1})
			if errors.Is(err, backup.ErrOutside) {
				return
			}
			must(err)
			if _, there := state.Tree().Find("/x1"); there {
				if _, there := state.Tree().Find("/acknowledged"); !there {
					t.Errorf("the state of %s lacks the transaction %s (%d digests are seen to differ)", state.Zxid, four+11, state.Mismatches)
				}
			}
		})
	}
}
