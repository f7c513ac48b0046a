package recipes

import (
	"errors"
	"math"
	"testing"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/datadir"
	"github.com/conclave-project/conclave/internal/replicadisk"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/servertest"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// serveState is serve with a tree that the given transactions have made.
func serveState(t *testing.T, txns ...zk.Txn) string {
	t.Helper()
	fs := vfs.NewMem()
	disk, err := replicadisk.Open(fs, replicadisk.Options{Store: datadir.Options{DataDir: "data"}})
	must(t, err)
	found, err := disk.Recover()
	must(t, err)
	state := found.State.Tree()
	for i, txn := range txns {
		state.Apply(&zk.TxnHeader{Zxid: zk.Zxid(i + 1), Op: txn.Op}, &txn, new(tree.Applied))
	}
	_, err = replicadisk.Begin(state, nil).Save(disk.Store(), nil)
	must(t, err)
	must(t, disk.Close())
	return servertest.Start(t, func(config *server.Config) { config.FS = fs })
}

// TestNobodyHoldsALockWhoseCounterIsUsedUp has a directory in which 2^31-1 znodes
// have been created. All later znodes would have the same number, and no order.
func TestNobodyHoldsALockWhoseCounterIsUsedUp(t *testing.T) {
	addr := serveState(t,
		zk.Txn{Op: zk.OpCreate, Path: "/lock", ACL: zk.OpenACL(), ParentCversion: 1},
		zk.Txn{Op: zk.OpCreate, Path: "/lock/x", ACL: zk.OpenACL(), ParentCversion: math.MaxInt32},
		zk.Txn{Op: zk.OpDelete, Path: "/lock/x"})
	c := dialed(t, addr, client.Options{})
	if _, err := NewLock(c, "/lock", Options{}).Acquire(awaittest.Within(t)); !errors.Is(err, zk.ErrBadArguments) {
		t.Errorf("the lock is held, or: %v", err)
	}
}

// TestCounterGoesOnWhenTheVersionHasWrappedAround starts after 2^31 changes, when
// versions are negative.
func TestCounterGoesOnWhenTheVersionHasWrappedAround(t *testing.T) {
	addr := serveState(t,
		zk.Txn{Op: zk.OpCreate, Path: "/n", Data: []byte("0"), ACL: zk.OpenACL(), ParentCversion: 1},
		zk.Txn{Op: zk.OpSetData, Path: "/n", Data: []byte("5"), Version: math.MaxInt32})
	n := NewCounter(dialed(t, addr, client.Options{}), "/n", Options{})
	for want := int64(6); want < 9; want++ {
		if got, err := n.Add(awaittest.Within(t), 1); got != want || err != nil {
			t.Fatalf("%d, %v; want %d", got, err, want)
		}
	}
}
