package tree

import (
	"github.com/conclave-project/conclave/internal/acl"
	"github.com/conclave-project/conclave/zk"
)

// Change is something that happened to a znode and that watches may wait for.
type Change struct {
	Type zk.EventType
	Path string
	ACL  acl.List // its READ permission decides who may be notified
}

// Applied collects what a transaction did. It is used again for the next one.
type Applied struct {
	Result    zk.Result
	Changes   []Change
	OverQuota []string // paths whose quota the transaction exceeded
}

// Apply carries out a transaction. It cannot fail: a change that does not fit the tree, as in a
// replay over a fuzzy snapshot, is left out (tree-N2), and the result has the code that says
// so. Strings and bytes of the transaction are copied.
func (t *Tree) Apply(h *zk.TxnHeader, txn *zk.Txn, out *Applied) { t.ApplyKnown(h, txn, &Known{}, out) }

// Known is what a leader found out when it decided a transaction, so that ApplyKnown need not
// find it out again. The zero value knows nothing.
type Known struct {
	At      Place  // of the znode that is set, or of the parent of the znode that is created
	Summed  bool   // the sums below are known
	BodySum uint32 // of the znode that is set or created
	Before  uint32 // BodySum of a znode that is set, before the change
}

// bodySum returns the BodySum of a path and its new data.
func (k *Known) bodySum(path string, data []byte, b *Scratch) uint32 {
	if k.Summed {
		return k.BodySum
	}
	return BodySum(path, data, b)
}

// ApplyKnown is Apply for a leader.
func (t *Tree) ApplyKnown(h *zk.TxnHeader, txn *zk.Txn, known *Known, out *Applied) {
	out.Changes, out.OverQuota = out.Changes[:0], out.OverQuota[:0]
	out.Result = zk.Result{Op: txn.Op}
	if txn.Op == zk.OpMulti {
		t.applyMulti(h, txn, out)
	} else {
		t.applyOne(h, txn, known, &out.Result, out)
	}
	t.writeAppeared()
	if h.Zxid > t.last {
		t.last = h.Zxid
	}
}

// applyMulti applies all parts, or none if one of them is an error. During a replay a part that
// fails does not stop the others (tree-N2).
func (t *Tree) applyMulti(h *zk.TxnHeader, txn *zk.Txn, out *Applied) {
	failed := false
	for i := range txn.Sub {
		failed = failed || txn.Sub[i].Op == zk.OpError
	}
	out.Result.Sub = make([]zk.Result, len(txn.Sub))
	after := false
	for i := range txn.Sub {
		sub, r := &txn.Sub[i], &out.Result.Sub[i]
		if !failed {
			r.Op = sub.Op
			t.applyOne(h, sub, &Known{}, r, out)
			continue
		}
		r.Op = zk.OpError
		switch {
		case after:
			r.Code = zk.ErrRuntimeInconsistency
		case sub.Op == zk.OpError:
			r.Code, after = sub.Code, true
		}
	}
}

func (t *Tree) applyOne(h *zk.TxnHeader, txn *zk.Txn, known *Known, r *zk.Result, out *Applied) {
	switch txn.Op {
	case zk.OpCreate, zk.OpCreate2, zk.OpCreateContainer, zk.OpCreateTTL:
		t.applyCreate(h, txn, known, r, out)
	case zk.OpDelete, zk.OpDeleteContainer:
		r.Code = t.applyDelete(h, txn.Path, out)
	case zk.OpSetData, zk.OpReconfig:
		t.applySetData(h, txn, known, r, out)
	case zk.OpSetACL:
		t.applySetACL(txn, r)
	case zk.OpCloseSession:
		t.applyCloseSession(h, txn, out)
	case zk.OpError:
		r.Code = txn.Code
	}
}

func (t *Tree) applyCreate(h *zk.TxnHeader, txn *zk.Txn, known *Known, r *zk.Result, out *Applied) {
	r.Path = txn.Path
	parentPath, name := zk.SplitPath(txn.Path)
	parent, ok := t.findAt(known.At, parentPath)
	if !ok {
		r.Code = zk.ErrNoNode
		return
	}
	hash := t.index.Hash(parent, name)
	id, exists := t.childOf(parent, name, hash)
	s := zk.StatPersisted{
		Czxid: h.Zxid, Mzxid: h.Zxid, Pzxid: h.Zxid, Ctime: h.Time, Mtime: h.Time, EphemeralOwner: storedOwner(h, txn),
	}
	if exists {
		// The ACL may have been dropped by this tree meanwhile (ZOOKEEPER-4846).
		t.setACL(t.nodes.At(id), txn.ACL)
		r.Code = zk.ErrNodeExists
	} else {
		sum := known.bodySum(txn.Path, txn.Data, &t.scratch)
		id = t.insertUnder(parent, txn.Path, name, hash, txn.Data, sum, t.acls.add(txn.ACL), &s)
		t.countBelow(t.nodes.At(id), 1)
		t.addDigest(id, sum, &s)
	}
	t.raiseParent(parent, parentPath, h.Zxid, txn.ParentCversion)
	if exists {
		return
	}
	t.quotaCreated(txn.Path)
	t.charge(txn.Path, 1, int64(len(txn.Data)), out)
	r.Stat = t.clientStat(t.nodes.At(id), &s)
	out.add(zk.EventNodeCreated, txn.Path, Node{t, id}.ACL())
	out.add(zk.EventNodeChildrenChanged, parentPath, Node{t, parent}.ACL())
}

// storedOwner returns what is stored as ephemeralOwner of a new znode.
func storedOwner(h *zk.TxnHeader, txn *zk.Txn) int64 {
	switch {
	case txn.Op == zk.OpCreateContainer:
		return zk.ContainerOwner
	case txn.Op == zk.OpCreateTTL:
		return zk.TTLOwner(txn.TTL)
	case txn.Ephemeral:
		return int64(h.Session)
	}
	return 0
}

// raiseParent moves the parent's version and pzxid forward, never back: in a replay they may
// already be ahead (ZOOKEEPER-3249).
func (t *Tree) raiseParent(parent uint32, path string, zxid zk.Zxid, cversion int32) {
	n := t.nodes.At(parent)
	p := t.needRest(n)
	if cversion == -1 {
		cversion = p.cversion + 1
	}
	if cversion <= p.cversion {
		return
	}
	sum, s := t.bodySum(n, path), t.stat(n)
	t.subDigest(parent, sum, &s)
	p.cversion, p.pzxid = cversion, zxid
	s.Cversion, s.Pzxid = cversion, zxid
	t.addDirectory(parent, sum, &s)
}

// applyDelete deletes a znode. The parent's pzxid rises even if the znode is already gone
// (ZOOKEEPER-3125). A replay may find children: the fuzzy snapshot contains a later znode of
// the same path, or later children of this one. They are deleted too. What is there now was not
// there when the transaction was decided, and the log creates it again. Keeping it would keep
// the data and the stat of a znode that was deleted.
func (t *Tree) applyDelete(h *zk.TxnHeader, path string, out *Applied) zk.Code {
	parentPath, name := zk.SplitPath(path)
	parent, ok := t.find(parentPath)
	if !ok {
		return zk.ErrNoNode
	}
	if p := t.nodes.At(parent); h.Zxid > t.pzxid(p) {
		r := t.needRest(p)
		sum, s := t.bodySum(p, parentPath), t.stat(p)
		t.subDigest(parent, sum, &s)
		r.pzxid, s.Pzxid = h.Zxid, h.Zxid
		t.addDirectory(parent, sum, &s)
	}
	id, ok := t.child(parent, name)
	if !ok {
		return zk.ErrNoNode
	}
	for child := t.first(id); child != noNode; child = t.first(id) {
		t.applyDelete(h, t.path(child), out)
	}
	list := Node{t, id}.ACL()
	bytes := int64(t.dataBytes(t.nodes.At(id)))
	t.remove(id, path)
	t.quotaDeleted(path)
	t.charge(path, -1, -bytes, out)
	out.add(zk.EventNodeDeleted, path, list)
	out.add(zk.EventNodeChildrenChanged, parentPath, Node{t, parent}.ACL())
	return zk.OK
}

func (t *Tree) applySetData(h *zk.TxnHeader, txn *zk.Txn, known *Known, r *zk.Result, out *Applied) {
	id, ok := t.findAt(known.At, txn.Path)
	if !ok {
		r.Code = zk.ErrNoNode
		return
	}
	n, usage := t.nodes.At(id), t.isUsage(txn.Path)
	sum, s := known.Before, t.stat(n)
	if !known.Summed || usage { // the server that applies writes the usage, and the one that decides does not know it
		sum = t.bodySum(n, txn.Path)
	}
	t.subDigest(id, sum, &s)
	grown := int64(0)
	if !usage {
		grown = int64(len(txn.Data)) - int64(t.dataBytes(n))
		t.setData(n, txn.Data)
		sum = known.bodySum(txn.Path, txn.Data, &t.scratch)
		t.noteLimits(txn.Path)
	}
	t.setWritten(n, h.Zxid, h.Time, txn.Version)
	t.keepSum(n, sum)
	s.Mzxid, s.Mtime, s.Version = h.Zxid, h.Time, txn.Version
	t.addDigest(id, sum, &s)
	t.charge(txn.Path, 0, grown, out)
	r.Stat, r.Data = t.clientStat(n, &s), txn.Data
	out.add(zk.EventNodeDataChanged, txn.Path, Node{t, id}.ACL())
}

func (t *Tree) applySetACL(txn *zk.Txn, r *zk.Result) {
	id, ok := t.find(txn.Path)
	if !ok {
		r.Code = zk.ErrNoNode
		return
	}
	n := t.nodes.At(id)
	sum, s := t.bodySum(n, txn.Path), t.stat(n)
	t.subDigest(id, sum, &s)
	t.setACL(n, txn.ACL)
	t.needRest(n).aversion = txn.Version
	t.keepSum(n, sum)
	s.Aversion = txn.Version
	t.addDigest(id, sum, &s)
	r.Stat = t.clientStat(n, &s)
}

func (t *Tree) setACL(n *znode, entries []zk.ACL) {
	old := t.restOf(n).acl
	t.useACL(n, t.acls.add(entries)) // added first, so that the same ACL is not dropped in between
	t.acls.release(old, len(t.walks) > 0)
}

// applyCloseSession deletes the ephemerals that the transaction names, and then everything that
// the session still owns here.
func (t *Tree) applyCloseSession(h *zk.TxnHeader, txn *zk.Txn, out *Applied) {
	for _, path := range txn.Paths {
		t.applyDelete(h, path, out)
	}
	for _, path := range t.Ephemerals(h.Session, "") {
		t.applyDelete(h, path, out)
	}
}

func (out *Applied) add(kind zk.EventType, path string, list acl.List) {
	out.Changes = append(out.Changes, Change{kind, path, list})
}
