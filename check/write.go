package check

import (
	"strings"

	"github.com/conclave-project/conclave/zk"
)

const propertyWrite = "write"

// Wrote compares the reply to a write with what its transaction did to the tree,
// and with what the tree was before:
//
//	W1  The zxid of the reply is that of the transaction that the request has made.
//	W2  A write that succeeds met the version, the parent and the absence that
//	    it asked for, and its effect is there.
//	W3  A write that is refused is refused for a reason that was true.
//	W4  A multi has happened whole or not at all.
//
// What is refused for other reasons (a full disk, a right that is missing) is
// not looked at.
func (m *Model) Wrote(session zk.SessionID, req *zk.Request, zxid zk.Zxid, code zk.Code, res *zk.Result) error {
	switch code {
	case zk.OK, zk.ErrNoNode, zk.ErrNodeExists, zk.ErrBadVersion, zk.ErrNotEmpty, zk.ErrNoChildrenForEphemerals:
	default:
		return nil
	}
	by, known := m.by[zxid]
	if !known {
		return broken(propertyWrite, "W1: %v %s is answered with %s, and no such transaction was shown", req.Op, req.Path, number(zxid))
	}
	if by.session != session || by.xid != req.Xid {
		return broken(propertyWrite, "W1: request %d of session %v is answered with %s, which is request %d of session %v",
			req.Xid, session, number(zxid), by.xid, by.session)
	}
	if req.Op == zk.OpMulti {
		return m.wroteMulti(session, req, zxid, code, res)
	}
	return m.wroteOne(session, req, zxid, code, res, false)
}

// wroteMulti looks at the parts of a multi. One that has failed is answered with
// OK all the same, and with an error for each part.
func (m *Model) wroteMulti(session zk.SessionID, req *zk.Request, zxid zk.Zxid, code zk.Code, res *zk.Result) error {
	failed := code != zk.OK
	for i := range res.Sub {
		failed = failed || res.Sub[i].Op == zk.OpError
	}
	seen := map[string]bool{}
	for i := range req.Ops {
		op := &req.Ops[i]
		if failed {
			if s := m.nodes[op.Path].when(zxid); s.zxid == zxid && zxid != 0 {
				return broken(propertyWrite, "W4: the multi of %s has failed, and has changed %s", number(zxid), op.Path)
			}
			continue
		}
		if seen[op.Path] || i >= len(res.Sub) {
			continue
		}
		seen[op.Path] = true
		if err := m.wroteOne(session, op, zxid, zk.OK, &res.Sub[i], true); err != nil {
			return err
		}
	}
	return nil
}

// wroteOne looks at one write, in a multi or by itself.
func (m *Model) wroteOne(session zk.SessionID, req *zk.Request, zxid zk.Zxid, code zk.Code, res *zk.Result, multi bool) error {
	switch {
	case req.Op.IsCreate():
		return m.wroteCreate(session, req, zxid, code, res, multi)
	case req.Op == zk.OpDelete || req.Op == zk.OpSetData || req.Op == zk.OpCheck:
		return m.wroteVersioned(req, zxid, code, res)
	}
	return nil
}

func (m *Model) wroteCreate(session zk.SessionID, req *zk.Request, zxid zk.Zxid, code zk.Code, res *zk.Result, multi bool) error {
	old, parent := m.nodes[req.Path].when(zxid-1), m.nodes[zk.ParentPath(req.Path)].when(zxid-1)
	switch {
	case code == zk.ErrNodeExists && (!old.exists || req.Mode.IsSequential()):
		return broken(propertyWrite, "W3: create %s at %s is refused: it exists, and it did not", req.Path, number(zxid))
	case code == zk.ErrNoNode && parent.exists:
		return broken(propertyWrite, "W3: create %s at %s is refused: no parent, and it has one", req.Path, number(zxid))
	case code == zk.ErrNoChildrenForEphemerals && parent.kind != zk.OwnerSession:
		return broken(propertyWrite, "W3: create %s at %s is refused: the parent is an ephemeral, and it is not", req.Path, number(zxid))
	case code != zk.OK:
		return nil
	case !parent.exists && !multi:
		return broken(propertyWrite, "W2: create %s at %s has no parent", req.Path, number(zxid))
	}
	if req.Mode.IsSequential() != (res.Path != req.Path) || !strings.HasPrefix(res.Path, req.Path) {
		return broken(propertyWrite, "W2: create %s at %s has made %s", req.Path, number(zxid), res.Path)
	}
	s := m.nodes[res.Path].when(zxid)
	owner := zk.SessionID(0)
	if req.Mode.IsEphemeral() {
		owner = session
	}
	if !s.exists || s.czxid != zxid || s.data != hashOf(req.Data) || s.owner != owner {
		return broken(propertyWrite, "W2: create %s at %s is acknowledged, and %s is not what was asked for", req.Path, number(zxid), res.Path)
	}
	return nil
}

func (m *Model) wroteVersioned(req *zk.Request, zxid zk.Zxid, code zk.Code, res *zk.Result) error {
	t := m.nodes[req.Path]
	old, s := t.when(zxid-1), t.when(zxid)
	children, _ := t.childrenWhen(zxid - 1)
	matches := req.Version == -1 || req.Version == old.version
	switch {
	case code == zk.ErrNoNode && old.exists,
		code == zk.ErrBadVersion && (!old.exists || matches),
		code == zk.ErrNotEmpty && (req.Op != zk.OpDelete || children == 0):
		return broken(propertyWrite, "W3: %v %s of version %d at %s is refused with %v; it was there: %v, version %d, %d children",
			req.Op, req.Path, req.Version, number(zxid), code, old.exists, old.version, children)
	case code != zk.OK:
		return nil
	case !old.exists || !matches:
		return broken(propertyWrite, "W2: %v %s of version %d at %s succeeds; it was there: %v, version %d",
			req.Op, req.Path, req.Version, number(zxid), old.exists, old.version)
	case req.Op == zk.OpDelete && s.exists && s.czxid != zxid:
		return broken(propertyWrite, "W2: delete %s at %s is acknowledged, and it is there", req.Path, number(zxid))
	case req.Op == zk.OpSetData && (s.mzxid != zxid || s.data != hashOf(req.Data) || res.Stat.Version != s.version):
		return broken(propertyWrite, "W2: setData %s at %s is acknowledged as version %d, and the tree has version %d of %s",
			req.Path, number(zxid), res.Stat.Version, s.version, number(s.mzxid))
	}
	return nil
}
