package check

import (
	"strings"

	"github.com/conclave-project/conclave/zk"
)

const propertyWrite = "write"

// Wrote compares the reply to a write with what its transaction did to the tree, and with
// the tree before:
//
//	W1  The zxid of the reply is that of the transaction that the request has made.
//	W2  A write that succeeds met the version, the parent and the absence that
//	    it asked for, and its effect is there.
//	W3  A write that is refused is refused for a reason that was true.
//	W4  A multi has happened whole or not at all.
//	W5  A write that succeeds was allowed by the ACL at that time.
//
// Refusals for other reasons (a full disk) are not checked.
func (m *Model) Wrote(who *Asker, req *zk.Request, zxid zk.Zxid, code zk.Code, res *zk.Result) error {
	switch code {
	case zk.OK, zk.ErrNoNode, zk.ErrNodeExists, zk.ErrBadVersion, zk.ErrNotEmpty, zk.ErrNoChildrenForEphemerals,
		zk.ErrNoAuth, zk.ErrQuotaExceeded:
	default:
		return nil
	}
	by, known := m.by[zxid]
	if !known {
		return broken(propertyWrite, "W1: %v %s is answered with %s, and no such transaction was shown", req.Op, req.Path, number(zxid))
	}
	if by.session != who.Session || by.xid != req.Xid {
		return broken(propertyWrite, "W1: request %d of session %v is answered with %s, which is request %d of session %v",
			req.Xid, who.Session, number(zxid), by.xid, by.session)
	}
	if req.Op == zk.OpMulti {
		return m.wroteMulti(who, req, zxid, code, res)
	}
	return m.write(who, req, zxid, code, res).judge()
}

// wroteMulti checks the parts of a multi. The answer to a failed multi is OK too, with an
// error for each part.
func (m *Model) wroteMulti(who *Asker, req *zk.Request, zxid zk.Zxid, code zk.Code, res *zk.Result) error {
	failed := code != zk.OK
	for i := range res.Sub {
		failed = failed || res.Sub[i].Op == zk.OpError
	}
	steps := map[string]int{}
	for i := range req.Ops {
		op := &req.Ops[i]
		if failed {
			if t := m.nodes[op.Path]; len(t.of(zxid)) > 1 && zxid != 0 {
				return broken(propertyWrite, "W4: the multi of %s has failed, and has changed %s", number(zxid), op.Path)
			}
			continue
		}
		if i >= len(res.Sub) {
			return broken(propertyWrite, "W4: the multi of %s has %d parts, and results of %d", number(zxid), len(req.Ops), len(res.Sub))
		}
		v := m.write(who, op, zxid, zk.OK, &res.Sub[i])
		v.step(steps)
		if err := v.judge(); err != nil {
			return err
		}
	}
	return nil
}

// write is one write, alone or in a multi, with the tree around it.
type write struct {
	m    *Model
	who  *Asker
	req  *zk.Request
	zxid zk.Zxid
	code zk.Code
	res  *zk.Result
	path string // of the znode, including its number

	old, after, parent state
	steps              map[string]int // of its multi
}

func (m *Model) write(who *Asker, req *zk.Request, zxid zk.Zxid, code zk.Code, res *zk.Result) *write {
	v := &write{m: m, who: who, req: req, zxid: zxid, code: code, res: res, path: req.Path}
	if code == zk.OK && req.Op.IsCreate() && req.Mode.IsSequential() {
		v.path = res.Path
	}
	v.old, v.after = *m.nodes[v.path].when(zxid - 1), *m.nodes[v.path].when(zxid)
	v.parent = *m.nodes[zk.ParentPath(v.path)].when(zxid - 1)
	return v
}

// step sets the place of a part in its multi: its surroundings are what the earlier parts
// have made. steps counts, for each path, how often it was changed.
func (v *write) step(steps map[string]int) {
	v.steps = steps
	states := v.m.nodes[v.path].of(v.zxid)
	at := min(steps[v.path], len(states)-1)
	v.old, v.after = states[at], states[min(at+1, len(states)-1)]
	parents := v.m.nodes[zk.ParentPath(v.path)].of(v.zxid)
	v.parent = parents[min(steps[zk.ParentPath(v.path)], len(parents)-1)]
	if v.req.Op != zk.OpCheck {
		steps[v.path] = at + 1
	}
}

func (v *write) judge() error {
	if err := v.allowed(); err != nil {
		return err
	}
	if err := v.withinQuota(); err != nil && v.steps == nil {
		return err
	}
	switch op := v.req.Op; {
	case op == zk.OpSetACL:
		return v.setACL()
	case op.IsCreate():
		return v.create()
	case op == zk.OpDelete || op == zk.OpSetData || op == zk.OpCheck:
		return v.versioned()
	}
	return nil
}

func (v *write) create() error {
	req, zxid, res := v.req, v.zxid, v.res
	switch {
	case v.code == zk.ErrNodeExists && (!v.old.exists || req.Mode.IsSequential()):
		return broken(propertyWrite, "W3: create %s at %s is refused: it exists, and it did not", req.Path, number(zxid))
	case v.code == zk.ErrNoNode && v.parent.exists:
		return broken(propertyWrite, "W3: create %s at %s is refused: no parent, and it has one", req.Path, number(zxid))
	case v.code == zk.ErrNoChildrenForEphemerals && v.parent.kind != zk.OwnerSession:
		return broken(propertyWrite, "W3: create %s at %s is refused: the parent is an ephemeral, and it is not", req.Path, number(zxid))
	case v.code != zk.OK:
		return nil
	case !v.parent.exists:
		return broken(propertyWrite, "W2: create %s at %s has no parent", req.Path, number(zxid))
	case v.old.exists:
		return broken(propertyWrite, "W2: create %s at %s succeeds, and it is there since %s", req.Path, number(zxid), number(v.old.czxid))
	}
	if req.Mode.IsSequential() != (res.Path != req.Path) || !strings.HasPrefix(res.Path, req.Path) {
		return broken(propertyWrite, "W2: create %s at %s has made %s", req.Path, number(zxid), res.Path)
	}
	s := v.after
	owner := zk.SessionID(0)
	if req.Mode.IsEphemeral() {
		owner = v.who.Session
	}
	if !s.exists || s.czxid != zxid || s.data != hashOf(req.Data) || s.owner != owner || !sameACL(s.acl, v.who.stored(req.ACL)) {
		return broken(propertyWrite, "W2: create %s at %s is acknowledged, and %s is not what was asked for", req.Path, number(zxid), res.Path)
	}
	return nil
}

func (v *write) setACL() error {
	req, old, s := v.req, v.old, v.after
	matches := req.Version == -1 || req.Version == old.aversion
	switch {
	case v.code == zk.ErrNoNode && old.exists, v.code == zk.ErrBadVersion && (!old.exists || matches):
		return broken(propertyWrite, "W3: setACL %s of version %d at %s is refused with %v; it was there: %v, version %d",
			req.Path, req.Version, number(v.zxid), v.code, old.exists, old.aversion)
	case v.code == zk.OK && (!old.exists || !matches || s.zxid != v.zxid || !sameACL(s.acl, v.who.stored(req.ACL)) || v.res.Stat.Aversion != s.aversion):
		return broken(propertyWrite, "W2: setACL %s of version %d at %s is acknowledged, and the tree has version %d of %v",
			req.Path, req.Version, number(v.zxid), s.aversion, s.acl)
	}
	return nil
}

func (v *write) versioned() error {
	req, zxid := v.req, v.zxid
	old, s := v.old, v.after
	children, _ := v.m.nodes[v.path].childrenWhen(zxid - 1)
	matches := req.Version == -1 || req.Version == old.version
	switch {
	case v.code == zk.ErrNoNode && old.exists,
		v.code == zk.ErrBadVersion && (!old.exists || matches),
		v.code == zk.ErrNotEmpty && (req.Op != zk.OpDelete || children == 0):
		return broken(propertyWrite, "W3: %v %s of version %d at %s is refused with %v; it was there: %v, version %d, %d children",
			req.Op, req.Path, req.Version, number(zxid), v.code, old.exists, old.version, children)
	case v.code != zk.OK:
		return nil
	case !old.exists || !matches:
		return broken(propertyWrite, "W2: %v %s of version %d at %s succeeds; it was there: %v, version %d",
			req.Op, req.Path, req.Version, number(zxid), old.exists, old.version)
	case req.Op == zk.OpDelete && (s.exists || s.zxid != zxid):
		return broken(propertyWrite, "W2: delete %s at %s is acknowledged, and it is there", req.Path, number(zxid))
	case req.Op == zk.OpSetData && (s.mzxid != zxid || s.data != hashOf(req.Data) || v.res.Stat.Version != s.version):
		return broken(propertyWrite, "W2: setData %s at %s is acknowledged as version %d, and the tree has version %d of %s",
			req.Path, number(zxid), v.res.Stat.Version, s.version, number(s.mzxid))
	}
	return nil
}
