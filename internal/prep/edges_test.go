package prep

import (
	"slices"
	"testing"

	"github.com/conclave-project/conclave/internal/tally"
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

// The end of a session names what the session owns once all outstanding changes are applied.
func TestEndOfASessionNamesWhatItWillOwn(t *testing.T) {
	b := newBench(t, true, Options{})
	for _, path := range []string{"/deleted", "/kept", "/others"} {
		b.done(node(path, mode(zk.Ephemeral)))
	}
	decided := func(session zk.SessionID, r zk.Request) zk.Txn {
		o := b.origin()
		o.Session = session
		txn, _ := decide(b.prep, &r, o)
		if txn.Op == zk.OpError {
			t.Fatalf("%v %s: %v", r.Op, r.Path, txn.Code)
		}
		return txn
	}
	decided(me, node("/deleted", op(zk.OpDelete)))
	decided(me, node("/others", op(zk.OpDelete)))
	decided(me+1, node("/others", mode(zk.Ephemeral)))
	decided(me, node("/kept", op(zk.OpSetData), data(3)))
	decided(me, node("/new", mode(zk.Ephemeral)))
	decided(me, node("/gone", mode(zk.Ephemeral)))
	decided(me, node("/gone", op(zk.OpDelete)))
	end := zk.Request{Op: zk.OpCloseSession}
	if txn := decided(me, end); !slices.Equal(txn.Paths, []string{"/kept", "/new"}) {
		t.Errorf("the session ends with %v", txn.Paths)
	}
	decided(me+1, node("/kept"))
	if txn := decided(me, end); len(txn.Paths) != 0 {
		t.Errorf("it ends again with %v", txn.Paths)
	}
	if txn := decided(me+1, end); !slices.Equal(txn.Paths, []string{"/others"}) {
		t.Errorf("the other one ends with %v", txn.Paths)
	}
}

// What is applied leaves the queue of outstanding changes, however long it is.
func TestQueueDoesNotGrowWithWhatIsApplied(t *testing.T) {
	b := newBench(t, true, Options{})
	var head zk.Zxid
	longest := 0
	for range 100_000 {
		r := node("/", op(zk.OpSetData))
		decide(b.prep, &r, b.origin())
		if b.prep.Outstanding() > 1000 {
			head++
			b.prep.Applied(head)
		}
		longest = max(longest, len(b.prep.outstanding.queue))
	}
	if n := b.prep.Outstanding(); n != 1000 || longest > 20_000 {
		t.Errorf("%d changes are outstanding, in a queue of up to %d", n, longest)
	}
}

// A request is decided on what those before it will have made, although nothing of it is applied.
func TestVersionsOfOutstandingWritesCount(t *testing.T) {
	b := newBench(t, true, Options{})
	b.done(node("/n", data(3)))
	for i, step := range []struct {
		r    zk.Request
		want zk.Code
	}{
		{node("/n", op(zk.OpSetData), version(0)), zk.OK},
		{node("/n", op(zk.OpSetData), version(0)), zk.ErrBadVersion},
		{node("/n", op(zk.OpSetData), version(1)), zk.OK},
		{node("/n", op(zk.OpCheck), version(2)), zk.OK},
		{node("/n", op(zk.OpSetACL), version(0)), zk.OK},
		{node("/n", op(zk.OpSetACL), version(0)), zk.ErrBadVersion},
		{node("/n", op(zk.OpSetACL), version(1)), zk.OK},
		{node("/n", op(zk.OpDelete), version(1)), zk.ErrBadVersion},
		{node("/n", op(zk.OpDelete), version(2)), zk.OK},
	} {
		if txn, _ := decide(b.prep, &step.r, b.origin()); (txn.Op == zk.OpError) != (step.want != zk.OK) || txn.Code != step.want {
			t.Errorf("step %d, %v with version %d: %v, want %v", i, step.r.Op, step.r.Version, txn.Code, step.want)
		}
	}
}

// A hard limit refuses what would exceed it, and nothing else: not what adds nothing, although there is
// too much already, and not if limits are not enforced.
func TestHardLimits(t *testing.T) {
	furnished := func(limits string, o Options) (*bench, *tally.Names) {
		over := &tally.Names{}
		o.OverQuota = over
		b := newBench(t, true, o)
		b.done(node("/d", data(8)))
		b.done(node("/d/child", data(2)))
		b.done(node("/free", data(8)))
		b.done(node("/zookeeper/quota/d"))
		b.done(node("/zookeeper/quota/d/zookeeper_limits", text(limits)))
		b.done(node("/zookeeper/quota/d/zookeeper_stats", text("count=2,bytes=10")))
		return b, over
	}
	create := func(path string, bytes int) zk.Request { return node(path, data(bytes)) }
	set := func(path string, bytes int) zk.Request { return node(path, op(zk.OpSetData), data(bytes)) }
	const none = "count=-1,bytes=-1"
	for _, c := range []struct {
		limits string
		off    bool
		r      zk.Request
		want   zk.Code
	}{
		{none + "=;countHardLimit=3", false, create("/d/x", 100), zk.OK},
		{none + "=;countHardLimit=2", false, create("/d/x", 0), zk.ErrQuotaExceeded},
		{none + "=;countHardLimit=0", false, create("/d/x", 0), zk.ErrQuotaExceeded},
		{none + "=;countHardLimit=-1", false, create("/d/x", 0), zk.OK},
		{none + "=;countHardLimit=0", false, set("/d", 100), zk.OK},
		{none + "=;countHardLimit=0", false, create("/free/x", 0), zk.OK},
		{none + "=;countHardLimit=0", true, create("/d/x", 0), zk.OK},
		{none + "=;byteHardLimit=12", false, create("/d/x", 2), zk.OK},
		{none + "=;byteHardLimit=12", false, create("/d/x", 3), zk.ErrQuotaExceeded},
		{none + "=;byteHardLimit=5", false, create("/d/x", 0), zk.OK},
		{none + "=;byteHardLimit=0", false, create("/d/x", 1), zk.ErrQuotaExceeded},
		{none + "=;byteHardLimit=12", false, set("/d", 10), zk.OK},
		{none + "=;byteHardLimit=12", false, set("/d", 11), zk.ErrQuotaExceeded},
		{none + "=;byteHardLimit=5", false, set("/d", 8), zk.OK},
		{none + "=;byteHardLimit=0", true, set("/d", 100), zk.OK},
		{"count=1,bytes=1", false, create("/d/x", 100), zk.OK}, // soft
	} {
		b, over := furnished(c.limits, Options{EnforceQuota: !c.off})
		if code := b.as(Origin{Alive: true, Identities: bob()}, c.r); code != c.want {
			t.Errorf("%s, enforced %v, %v %s of %d bytes: %v, want %v", c.limits, !c.off, c.r.Op, c.r.Path, len(c.r.Data), code, c.want)
		}
		if refused := over.All()["d"].Count == 1; refused != (c.want == zk.ErrQuotaExceeded) {
			t.Errorf("%s, %v %s: a refusal is counted: %v", c.limits, c.r.Op, c.r.Path, refused)
		}
	}
}
