package prep

import (
	"testing"

	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/zk"
)

// The reaper's deletions lead to the digest of the tree without the znode, and its parent may be
// deleted next, before any of it is applied.
func TestReaperDeletesContainersAndTTLZnodes(t *testing.T) {
	b := newBench(t, true, Options{})
	b.done(node("/d"))
	b.done(node("/d/container", op(zk.OpCreateContainer), mode(zk.Container)))
	b.done(node("/d/ttl", op(zk.OpCreateTTL), mode(zk.PersistentTTL), ttl(1)))
	b.done(node("/d/container", op(zk.OpDeleteContainer)))
	for _, r := range []zk.Request{node("/d/ttl", op(zk.OpDeleteContainer)), node("/d", op(zk.OpDelete))} {
		if txn, _ := decide(b.prep, &r, b.origin()); txn.Op != r.Op || txn.Path != r.Path {
			t.Errorf("%v %s becomes %+v", r.Op, r.Path, txn)
		}
	}
}

// A container's flags may say ephemeral: it is a container all the same, and no session's.
func TestContainerWithEphemeralFlagsBelongsToNoSession(t *testing.T) {
	b := newBench(t, true, Options{})
	b.done(node("/c", op(zk.OpCreateContainer), mode(zk.Ephemeral)))
	r := node("/d", op(zk.OpCreateContainer), mode(zk.Ephemeral))
	if txn, _ := decide(b.prep, &r, b.origin()); txn.Ephemeral {
		t.Errorf("it becomes %+v", txn)
	}
	if txn, _ := decide(b.prep, &zk.Request{Op: zk.OpCloseSession}, b.origin()); len(txn.Paths) != 0 {
		t.Errorf("it is deleted with the session: %v", txn.Paths)
	}
}

// The digest of a directory whose counter is at its end is that of a directory that does not change.
func TestDigestOfADirectoryWhoseCounterIsAtItsEnd(t *testing.T) {
	b := newBench(t, true, Options{})
	b.done(node("/q"))
	b.tree.Apply(&zk.TxnHeader{Zxid: 100, Op: zk.OpCreate},
		&zk.Txn{Op: zk.OpCreate, Path: "/q/last", ACL: zk.OpenACL(), ParentCversion: 1<<31 - 1}, new(tree.Applied))
	b.prep, b.zxid = New(b.tree, b.prep.opts), 100
	b.done(node("/q/next"))
	b.done(node("/q/next", op(zk.OpDelete)))
}

// A transaction may be exactly as long as can be stored.
func TestTransactionMayBeAsLongAsCanBeStored(t *testing.T) {
	r := node("/n", data(1000))
	txn, _ := decide(newBench(t, true, Options{}).prep, &r, &Origin{Session: me, Alive: true, Identities: bob(), Zxid: 1})
	for limit, want := range map[int]zk.Op{txnBytes(&txn): zk.OpCreate, txnBytes(&txn) - 1: zk.OpError} {
		b := newBench(t, true, Options{TxnBytesMax: limit})
		if txn, _ := decide(b.prep, &r, b.origin()); txn.Op != want {
			t.Errorf("with %d bytes it becomes %v", limit, txn.Op)
		}
	}
}
