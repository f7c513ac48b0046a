package backup_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/backup"
	"github.com/conclave-project/conclave/internal/datadir"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/replicadisk"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// sentSnapshot makes the directory of a learner that was sent the state of 1.20 while its
// leader went on: the change of 1.22 is in it, and nothing records that.
func sentSnapshot(t *testing.T) *vfs.Mem {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	disk := vfs.NewMem()
	d, err := replicadisk.Open(disk, replicadisk.Options{Store: datadir.Options{DataDir: "/data"}, ExtendedTypes: true, Ensemble: true})
	must(err)
	_, err = d.Recover()
	must(err)
	leaders, sent := tree.New(tree.Options{ExtendedTypes: true}), tree.New(tree.Options{ExtendedTypes: true})
	var payloads [26][]byte
	for n := uint32(1); n <= 25; n++ {
		var out tree.Applied
		h := zk.TxnHeader{Session: 1, Cxid: 1, Zxid: one(n), Time: time.Now().UnixMilli(), Op: zk.OpCreate}
		x := zk.Txn{Op: zk.OpCreate, Path: path(one(n)), ACL: zk.OpenACL(), ParentCversion: int32(n)}
		leaders.Apply(&h, &x, &out)
		payloads[n] = txn.Append(nil, &h, &x, leaders.Digest())
		if n <= 20 || n == 22 {
			sent.Apply(&h, &x, &out)
		}
	}
	sent.SetLastZxid(one(20))
	do := func(op replica.DiskOp, s *replicadisk.Snapshot) {
		t.Helper()
		_, err := d.Do(&op, s)
		must(err)
	}
	do(replica.DiskOp{Kind: replica.DiskSetAccepted, Epoch: 1}, nil)
	do(replica.DiskOp{Kind: replica.DiskSaveSnapshot, Zxid: one(20), Ticket: 1}, replicadisk.Begin(sent, nil))
	do(replica.DiskOp{Kind: replica.DiskSetCurrent, Epoch: 1}, nil)
	for n := uint32(21); n <= 25; n++ {
		do(replica.DiskOp{Kind: replica.DiskAppend, Zxid: one(n), Payload: payloads[n]}, nil)
	}
	do(replica.DiskOp{Kind: replica.DiskSync, Ticket: 2}, nil)
	must(d.Close())
	return disk
}

// Nobody has noted how far the snapshot of a leader is ahead of its zxid: it is exact at a zxid
// up to which everything is committed.
func TestStateOfASnapshotThatALeaderHasSentIsExact(t *testing.T) {
	for _, committed := range []zk.Zxid{one(25), backup.AllCommitted} {
		t.Run(fmt.Sprint("committed ", committed), func(t *testing.T) {
			source := backup.Source{FS: sentSnapshot(t), SnapDir: "/data/version-2", LogDir: "/data/version-2", Now: time.Now,
				Committed: func(context.Context) (zk.Zxid, error) { return committed, nil }}
			place := backup.OpenDir(vfs.NewMem(), "/")
			taken, err := open(t, place).Take(t.Context(), source, backup.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%+v", taken)
			for n := uint32(20); n < 25; n++ {
				state, err := open(t, place).Load(t.Context(), backup.Moment{Zxid: one(n)})
				if err != nil {
					continue
				}
				for later := n + 1; later <= 25; later++ {
					if _, there := state.Tree().Find(path(one(later))); there {
						t.Errorf("the state of %s has what %s made", one(n), one(later))
					}
				}
			}
			restores(t, place, one(25))
		})
	}
}
