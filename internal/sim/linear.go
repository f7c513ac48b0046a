package sim

import (
	"strings"

	"github.com/conclave-project/conclave/internal/check"
	"github.com/conclave-project/conclave/internal/clientsession"
	"github.com/conclave-project/conclave/zk"
)

// lines splits every request, on any path, into operations on single znodes: a create is
// one on its znode, and shows that the parent exists; a multi is its parts, at the same
// time. If the requests have an order that explains them all, so have the operations on
// each znode. A deletion by a server on its own is an operation from when it was decided to
// when it was shown.
type lines struct {
	w          *world
	history    []check.Operation
	decided    map[zk.Zxid]int64 // moments
	unanswered []unanswered
}

// unanswered is a write without an answer, or a part of such a write.
type unanswered struct {
	session zk.SessionID
	xid     zk.Xid
	op      check.Operation
	part    int  // of a multi
	unnamed bool // a sequential create
}

// whole returns the history when nothing is in progress any more. It takes from the log
// which writes without an answer have happened, and what sequential creates have created: if
// each of them might have happened or not, there would be too many orders.
func (l *lines) whole() []check.Operation {
	o := l.w.watcher
	for _, u := range l.unanswered {
		zxid, done := o.asked.Happened(u.session, u.xid)
		if !done {
			continue
		}
		if made := o.records[zxid].txn; u.unnamed && made.Op == zk.OpMulti {
			u.op.Key = made.Sub[u.part].Path
		} else if u.unnamed {
			u.op.Key = made.Path
		}
		l.add(u.op)
	}
	l.unanswered = nil
	return l.history
}

// logged handles a transaction that a server logs: it was decided now at the latest.
func (l *lines) logged(zxid zk.Zxid) {
	if _, known := l.decided[zxid]; !known {
		l.decided[zxid] = l.w.moment()
	}
}

// shown handles a transaction that is shown for the first time.
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

// ended handles a request that has ended, with an answer or without.
func (l *lines) ended(c *client, q *request, e *clientsession.Effect) {
	req := &e.Call.Request
	at := check.Operation{Client: c.number, Call: q.asked, Return: l.w.moment()}
	switch {
	case !e.Replied && (e.Outcome == clientsession.NotApplied || !req.Op.IsWrite()):
	case !e.Replied:
		at.Return = check.Never
		id, _ := c.machine.Session()
		l.unknown(unanswered{session: id, xid: req.Xid, op: at}, req)
	case req.Op.IsWrite():
		l.wrote(req, e.Code, &c.result, at)
	case q.recent:
		if q.synced != nil {
			at.Call = q.synced.asked
		}
		l.read(req, e.Code, &c.result, at)
	}
}

// unknown adds a write without an answer.
func (l *lines) unknown(u unanswered, req *zk.Request) {
	for i := range req.Ops {
		u.part = i
		l.unknown(u, &req.Ops[i])
	}
	switch req.Op {
	case zk.OpMulti, zk.OpCloseSession, zk.OpSetACL, zk.OpCheck:
		return
	}
	u.op.Key, u.op.Op, u.op.Version, u.op.Data = req.Path, registerOp(req.Op), req.Version, check.Hash(req.Data)
	u.unnamed = req.Mode.IsSequential()
	l.unanswered = append(l.unanswered, u)
}

// registerOp returns a request's operation on its znode.
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

// wroteMulti adds the parts of a multi that has happened.
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

// exists adds an answer that shows whether a znode exists.
func (l *lines) exists(path string, there bool, at check.Operation) {
	at.Key, at.Op, at.Version, at.Code = path, zk.OpExists, -1, zk.OK
	if !there {
		at.Code = zk.ErrNoNode
	}
	l.add(at)
}
