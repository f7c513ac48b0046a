package sim

import (
	"strings"

	"github.com/conclave-project/conclave/internal/check"
	"github.com/conclave-project/conclave/internal/clientsession"
	"github.com/conclave-project/conclave/zk"
)

// lines takes every request, on whatever path, apart into operations on single
// znodes: a create is one on its znode, and shows that the parent is there; a
// multi is its parts, at one time. If the requests have an order that explains
// them all, so have the operations on each znode. What servers delete by
// themselves is an operation from when it was decided to when it was shown.
type lines struct {
	w       *world
	history []check.Operation
	decided map[zk.Zxid]int64 // moments
	unnamed []unnamed
}

// unnamed is a sequential create without an answer.
type unnamed struct {
	session zk.SessionID
	xid     zk.Xid
	op      check.Operation
}

// whole is the history when nothing is on its way any more. What a sequential
// create without an answer has made, the log says.
func (l *lines) whole() []check.Operation {
	o := l.w.watcher
	for _, u := range l.unnamed {
		if zxid, done := o.asked.Happened(u.session, u.xid); done {
			u.op.Key = o.records[zxid].txn.Path
			l.add(u.op)
		}
	}
	l.unnamed = nil
	return l.history
}

// logged is a transaction that a server logs: it was decided now at the latest.
func (l *lines) logged(zxid zk.Zxid) {
	if _, known := l.decided[zxid]; !known {
		l.decided[zxid] = l.w.moment()
	}
}

// shown is a transaction that somebody shows for the first time.
func (l *lines) shown(r *record) {
	var gone []string
	switch r.txn.Op {
	case zk.OpCloseSession:
		gone = r.txn.Paths
	case zk.OpDeleteContainer:
		gone = []string{r.txn.Path}
	}
	for _, path := range gone {
		l.add(check.Operation{Key: path, Op: zk.OpDelete, Version: -1, Call: l.decided[r.header.Zxid], Return: l.w.moment()})
	}
}

func (l *lines) add(op check.Operation) {
	if op.Key != zk.RootPath && !strings.HasPrefix(op.Key, zk.SystemPath) {
		l.history = append(l.history, op)
	}
}

// ended is a request that has come to its end, with an answer or without.
func (l *lines) ended(c *client, q *request, e *clientsession.Effect) {
	req := &e.Call.Request
	at := check.Operation{Client: c.number, Call: q.asked, Return: l.w.moment()}
	switch {
	case !e.Replied && (e.Outcome == clientsession.NotApplied || !req.Op.IsWrite()):
	case !e.Replied:
		at.Return = check.Never
		l.unknown(c, req, at)
	case req.Op.IsWrite():
		l.wrote(req, e.Code, &c.result, at)
	case q.recent:
		if q.synced != nil {
			at.Call = q.synced.asked
		}
		l.read(req, e.Code, &c.result, at)
	}
}

// unknown is a write without an answer.
func (l *lines) unknown(c *client, req *zk.Request, at check.Operation) {
	for i := range req.Ops {
		l.unknown(c, &req.Ops[i], at)
	}
	at.Key, at.Op, at.Version, at.Data = req.Path, registerOp(req.Op), req.Version, check.Hash(req.Data)
	switch {
	case req.Op == zk.OpMulti, req.Op == zk.OpCloseSession, req.Op == zk.OpSetACL, req.Op == zk.OpCheck:
	case req.Mode.IsSequential():
		id, _ := c.machine.Session()
		l.unnamed = append(l.unnamed, unnamed{id, req.Xid, at})
	default:
		l.add(at)
	}
}

// registerOp is a request's operation on its znode.
func registerOp(op zk.Op) zk.Op {
	if op.IsCreate() {
		return zk.OpCreate
	}
	return op
}

func (l *lines) wrote(req *zk.Request, code zk.Code, res *zk.Result, at check.Operation) {
	if req.Op == zk.OpMulti {
		l.wroteMulti(req, code, res, at)
		return
	}
	at.Key, at.Op, at.Version, at.Data, at.Code = req.Path, registerOp(req.Op), req.Version, check.Hash(req.Data), code
	switch {
	case !decided(code), at.Op == zk.OpCloseSession:
	case at.Op == zk.OpSetACL, at.Op == zk.OpCheck, code == zk.ErrNotEmpty:
		l.exists(req.Path, code != zk.ErrNoNode, at)
	case at.Op == zk.OpCreate && code == zk.OK:
		at.Key = res.Path
		l.add(at)
		l.exists(zk.ParentPath(at.Key), true, at)
	case at.Op == zk.OpCreate && code == zk.ErrNodeExists:
		l.exists(req.Path, true, at)
	case at.Op == zk.OpCreate:
		l.exists(zk.ParentPath(req.Path), code != zk.ErrNoNode, at)
	default:
		at.Found = res.Stat.Version
		l.add(at)
	}
}

// wroteMulti is the parts of a multi that has happened.
func (l *lines) wroteMulti(req *zk.Request, code zk.Code, res *zk.Result, at check.Operation) {
	if code != zk.OK || len(res.Sub) != len(req.Ops) {
		return
	}
	for i := range res.Sub {
		if res.Sub[i].Op == zk.OpError {
			return
		}
	}
	for i := range req.Ops {
		l.wrote(&req.Ops[i], zk.OK, &res.Sub[i], at)
	}
}

func (l *lines) read(req *zk.Request, code zk.Code, res *zk.Result, at check.Operation) {
	if code != zk.OK && code != zk.ErrNoNode {
		return
	}
	switch req.Op {
	case zk.OpExists, zk.OpGetChildren2, zk.OpGetACL:
		l.exists(req.Path, code == zk.OK, at)
		return
	case zk.OpGetData:
	default:
		return
	}
	at.Key, at.Op, at.Code, at.Data, at.Found = req.Path, zk.OpGetData, code, check.Hash(res.Data), res.Stat.Version
	l.add(at)
}

// exists is an answer that shows whether a znode is there.
func (l *lines) exists(path string, there bool, at check.Operation) {
	at.Key, at.Op, at.Version, at.Code = path, zk.OpExists, -1, zk.OK
	if !there {
		at.Code = zk.ErrNoNode
	}
	l.add(at)
}
