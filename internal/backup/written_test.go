package backup_test

import (
	"context"
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

// written is a server's directory that a test writes itself.
type written struct {
	t       *testing.T
	disk    *vfs.Mem
	store   *datadir.Store
	live    *tree.Tree
	log     *txnlog.Log
	digests bool // in the log
	now     func() time.Time
}

func newWritten(t *testing.T) *written {
	t.Helper()
	w := &written{t: t, disk: vfs.NewMem(), digests: true, now: time.Now}
	store, err := datadir.Open(w.disk, datadir.Options{DataDir: "/data"})
	w.must(err)
	t.Cleanup(func() { store.Close() })
	w.store = store
	w.become(0)
	return w
}

func (w *written) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// become replaces the state by an empty one at a zxid, and writes a snapshot of it. The log
// stays.
func (w *written) become(zxid zk.Zxid) {
	w.t.Helper()
	w.live = tree.New(tree.Options{ExtendedTypes: true})
	w.live.SetLastZxid(zxid)
	if w.log != nil {
		w.must(w.log.Close())
	}
	_, err := replicadisk.Begin(w.live, nil).Save(w.store, nil)
	w.must(err)
	w.log, err = w.store.OpenLog(zxid)
	w.must(err)
}

// path is the path of the znode that the transaction of a zxid creates.
func path(zxid zk.Zxid) string { return fmt.Sprintf("/n%x", int64(zxid)) }

// create logs transactions that create a znode each.
func (w *written) create(first, last zk.Zxid) {
	w.t.Helper()
	for zxid := first; zxid <= last; zxid++ {
		var out tree.Applied
		h := zk.TxnHeader{Session: 1, Cxid: 1, Zxid: zxid, Time: w.now().UnixMilli(), Op: zk.OpCreate}
		x := zk.Txn{Op: zk.OpCreate, Path: path(zxid), ACL: zk.OpenACL(), ParentCversion: -1}
		w.live.Apply(&h, &x, &out)
		d := zk.Digest{}
		if w.digests {
			d = w.live.Digest()
		}
		w.must(w.log.Append(zxid, txn.Append(nil, &h, &x, d)))
	}
	w.must(w.log.Sync())
}

func (w *written) snapshot() {
	w.t.Helper()
	w.log.Roll()
	_, err := replicadisk.Begin(w.live, nil).Save(w.store, nil)
	w.must(err)
}

func (w *written) source(committed zk.Zxid) backup.Source {
	return backup.Source{FS: w.disk, SnapDir: w.store.SnapDir(), LogDir: w.store.LogDir(), Now: w.now,
		Committed: func(context.Context) (zk.Zxid, error) { return committed, nil }}
}

func (w *written) take(place backup.Place, committed zk.Zxid, o backup.Options) backup.Taken {
	w.t.Helper()
	taken, err := open(w.t, place).Take(w.t.Context(), w.source(committed), o)
	w.t.Logf("taken up to %s: %+v", committed, taken)
	w.must(err)
	return taken
}

// restores loads states, and compares each with the result of the transactions up to it.
func restores(t *testing.T, place backup.Place, zxids ...zk.Zxid) {
	t.Helper()
	for _, zxid := range zxids {
		state, err := open(t, place).Load(t.Context(), backup.Moment{Zxid: zxid})
		if err != nil {
			t.Errorf("%s cannot be restored: %v", zxid, err)
			continue
		}
		_, last := state.Tree().Find(path(zxid))
		_, next := state.Tree().Find(path(zxid + 1))
		if state.Zxid != zxid || !last || next || state.Mismatches > 0 {
			t.Errorf("%s: the state of %s; its own znode is there: %t, the next one: %t; %d digests differ", zxid, state.Zxid, last, next, state.Mismatches)
		}
	}
}
