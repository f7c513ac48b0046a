package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/conclave-project/conclave/internal/check"
	"github.com/conclave-project/conclave/internal/clientsession"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// program is what a client does: requests of all kinds on a few paths that all clients
// share, so that they conflict.
//
//	/r0 ... /r3   registers: create, setData, delete, by version or not; sync and read
//	/q            sequential children, some of them ephemeral
//	/e            ephemerals, one name for each client and number
//	/k            znodes of names used once: what was acknowledged must be there in the end
//	/b0 ... /b2   changed together by multi
//
// and the parts of the plan's Work (work.go).
type program struct {
	c       *client
	waiting int // number of requests without an answer
	open    []*clientsession.Call
	made    int // number of names used
	mine    []string
	keeps   []string // names used once whose creation was acknowledged and that were not deleted
	calm    bool     // no new requests are begun
	final   bool     // the last write was acknowledged
	parts   []Work
	stays   []*clientsession.Watch
	staying map[stay]bool
}

// request is one request of a program.
type request struct {
	op       zk.Op
	floor    zk.Zxid  // the newest zxid that anybody had seen when it was made
	asked    int64    // moment
	synced   *request // the sync before a read
	answered bool
	recent   bool // answered after its sync
	final    bool

	then func(*clientsession.Effect, *zk.Result) // called with the answer; nil for nothing
}

const registers = 4

func (p *program) begin(c *client) {
	p.c, p.parts, p.staying = c, c.w.plan.does().parts(), map[stay]bool{}
}

// think plans the next requests.
func (p *program) think() {
	p.c.later(p.c.random.between(1, 2*int64(p.c.w.plan.ThinkMs)), func() {
		if p.calm {
			return
		}
		if p.waiting < p.c.w.plan.Depth && !p.c.machine.State().Final() {
			p.act()
		}
		p.think()
	})
}

// act is one thing that a client wants.
func (p *program) act() {
	r := p.c.random
	if p.works() {
		return
	}
	register := fmt.Sprintf("/r%d", r.below(registers))
	switch pick := r.below(100); {
	case pick < 12:
		p.submit(zk.Request{Op: zk.OpCreate, Path: register, Data: p.data(), ACL: zk.OpenACL()})
	case pick < 30:
		p.submit(zk.Request{Op: zk.OpSetData, Path: register, Data: p.data(), Version: p.version()})
	case pick < 34:
		p.submit(zk.Request{Op: zk.OpDelete, Path: register, Version: p.version()})
	case pick < 46:
		p.readRecent(register)
	case pick < 56:
		p.submit(zk.Request{Op: zk.OpGetData, Path: register, Watch: r.oneIn(2)})
	case pick < 62:
		p.submit(zk.Request{Op: zk.OpExists, Path: register, Watch: r.oneIn(2)})
	case pick < 68:
		p.submit(zk.Request{Op: zk.OpGetChildren2, Path: []string{"/q", "/e", "/"}[r.below(3)], Watch: r.oneIn(2)})
	case pick < 76:
		p.makeSequential()
	case pick < 84:
		p.makeEphemeral()
	case pick < 86:
		p.unmake()
	case pick < 88:
		p.unkeep()
	case pick < 94:
		p.keep()
	case pick < 97:
		p.transfer()
	case pick < 98 && p.c.w.wild:
		p.submit(zk.Request{Op: zk.OpCloseSession})
	default:
		p.makeParents()
	}
}

// readRecent reads a register or another path after a sync.
func (p *program) readRecent(register string) {
	r := p.c.random
	req := zk.Request{Op: zk.OpGetData, Path: register}
	if r.oneIn(3) {
		req.Path = p.somePath()
		req.Op = []zk.Op{zk.OpGetData, zk.OpExists, zk.OpGetChildren2}[r.below(3)]
	}
	sync := p.submit(zk.Request{Op: zk.OpSync, Path: req.Path})
	p.submitAfter(sync, req)
}

// somePath returns a path that clients use.
func (p *program) somePath() string {
	r := p.c.random
	switch r.below(6) {
	case 0:
		return fmt.Sprintf("/b%d", r.below(3))
	case 1:
		return fmt.Sprintf("/e/c%d-%d", p.c.w.clients[r.below(len(p.c.w.clients))].number, r.below(5))
	case 2:
		return fmt.Sprintf("/k/c%d-%d", p.c.w.clients[r.below(len(p.c.w.clients))].number, 1+r.below(50))
	case 3:
		return []string{"/q", "/e", "/k"}[r.below(3)]
	}
	return p.childOf(fmt.Sprintf("/d%d", r.below(directories)))
}

// data returns the next value to write: no two are equal.
func (p *program) data() []byte {
	p.made++
	return fmt.Appendf(nil, "%d.%d", p.c.number, p.made)
}

// version returns -1 or a version that a register may have.
func (p *program) version() int32 { return int32(p.c.random.below(6)) - 1 }

func (p *program) makeParents() {
	path := []string{"/q", "/e", "/k", "/b0", "/b1"}[p.c.random.below(5)]
	p.submit(zk.Request{Op: zk.OpCreate, Path: path, ACL: zk.OpenACL()})
}

func (p *program) makeSequential() {
	mode := zk.PersistentSequential
	if p.c.random.oneIn(2) {
		mode = zk.EphemeralSequential
	}
	p.submit(zk.Request{Op: zk.OpCreate2, Path: "/q/n-", Data: p.data(), Mode: mode, ACL: zk.OpenACL()})
}

func (p *program) makeEphemeral() {
	p.made++
	path := fmt.Sprintf("/e/c%d-%d", p.c.number, p.made%5)
	p.mine = append(p.mine, path)
	p.submit(zk.Request{Op: zk.OpCreate, Path: path, Data: p.data(), Mode: zk.Ephemeral, ACL: zk.OpenACL()})
}

// unmake deletes something that the client has created or may have created.
func (p *program) unmake() {
	if n := len(p.mine); n > 0 {
		i := p.c.random.below(n)
		path := p.mine[i]
		p.mine[i] = p.mine[n-1]
		p.mine = p.mine[:n-1]
		p.submit(zk.Request{Op: zk.OpDelete, Path: path, Version: -1})
	}
}

// keep creates a znode with a name that is used once.
func (p *program) keep() {
	p.made++
	path := fmt.Sprintf("/k/c%d-%d", p.c.number, p.made)
	p.c.w.watcher.kept.Creating(path)
	p.submit(zk.Request{Op: zk.OpCreate, Path: path, ACL: zk.OpenACL()})
}

// unkeep deletes such a znode, once.
func (p *program) unkeep() {
	if n := len(p.keeps); n > 0 {
		i := p.c.random.below(n)
		path := p.keeps[i]
		p.keeps = slices.Delete(p.keeps, i, i+1)
		p.c.w.watcher.kept.Deleting(path)
		p.submit(zk.Request{Op: zk.OpDelete, Path: path, Version: -1})
	}
}

// transfer changes two znodes together, or neither.
func (p *program) transfer() {
	data := p.data()
	p.submit(zk.Request{Op: zk.OpMulti, Ops: []zk.Request{
		{Op: zk.OpSetData, Path: "/b0", Data: data, Version: -1},
		{Op: zk.OpSetData, Path: "/b1", Data: data, Version: p.version()},
		{Op: zk.OpCreate, Path: "/b2", Data: data, ACL: zk.OpenACL()},
	}[:2+p.c.random.below(2)]})
}

func (p *program) submit(r zk.Request) *request { return p.submitAfter(nil, r) }

func (p *program) submitAfter(sync *request, r zk.Request) *request {
	c := p.c
	q := &request{op: r.Op, floor: c.w.watcher.recent.Floor(), asked: c.w.moment(), synced: sync}
	call := &clientsession.Call{Request: r, Owner: q}
	call.Watch = watchOf(&call.Request)
	p.waiting++
	p.open = append(p.open, call)
	if r.Op == zk.OpCloseSession {
		c.step(clientsession.Event{Kind: clientsession.Close, Call: call})
	} else {
		c.step(clientsession.Event{Kind: clientsession.Submit, Call: call})
	}
	return q
}

// notify checks that a one-shot watch is notified only once.
func (p *program) notify(e *clientsession.Effect) {
	if !e.Watch.Kind.OneShot() {
		return
	}
	times := e.Watch.Owner.(*int)
	if *times++; *times > 1 {
		p.c.w.fail(&check.Violation{Property: "watch", Detail: fmt.Sprintf("client %v is told twice of a watch on %s", p.c.node, e.Watch.Path)})
	}
}

// complete handles the end of a request.
func (p *program) complete(e *clientsession.Effect) {
	q := e.Call.Owner.(*request)
	p.waiting--
	p.open = slices.DeleteFunc(p.open, func(call *clientsession.Call) bool { return call == e.Call })
	q.answered = e.Replied && e.Code == zk.OK
	w := p.c.w
	switch {
	case !e.Replied:
		w.tally.Unknown++
	case q.op.IsWrite() && e.Code == zk.OK:
		w.tally.Acked++
	case q.op.IsWrite():
		w.tally.Refused++
	default:
		w.tally.Reads++
	}
	p.judge(q, e)
	w.watcher.lines.ended(p.c, q, e)
	if q.final && q.answered {
		p.final = true
	}
	if q.then != nil && !p.calm {
		q.then(e, &p.c.result)
	}
}

// judge compares the result of a request with what was shown before it.
func (p *program) judge(q *request, e *clientsession.Effect) {
	w, req := p.c.w, &e.Call.Request
	w.watcher.keeps(req, e)
	if !e.Replied {
		if id, _ := p.c.machine.Session(); e.Outcome == clientsession.NotApplied && req.Xid > 0 {
			w.fail(w.watcher.asked.NotApplied(id, req.Xid))
		}
		return
	}
	if done := e.Code == zk.OK; done && q.op == zk.OpCreate && strings.HasPrefix(req.Path, "/k/") {
		p.keeps = append(p.keeps, req.Path)
	}
	switch {
	case q.op == zk.OpCloseSession && w.watcher.local.Had(p.c.who.Session):
	case q.op.IsWrite() && decided(e.Code):
		w.fail(w.watcher.recent.Wrote(q.floor, e.Zxid))
	case q.synced != nil && q.synced.answered && (e.Code == zk.OK || e.Code == zk.ErrNoNode):
		q.recent = true
		w.fail(w.watcher.recent.Read(q.synced.floor, e.Zxid))
	case p.c.partial:
	case w.plan.Linearizable && !q.op.IsWrite() && q.op != zk.OpSync && q.op != zk.OpAuth:
		q.recent = true
		w.fail(w.watcher.recent.Read(q.floor, e.Zxid))
	}
	if q.op == zk.OpCreate2 && e.Code == zk.OK && req.Mode.IsSequential() {
		w.fail(p.named(req, e.Zxid))
	}
}

// decided reports whether a code is the result of a transaction.
func decided(code zk.Code) bool {
	switch code {
	case zk.OK, zk.ErrNoNode, zk.ErrNodeExists, zk.ErrBadVersion, zk.ErrNotEmpty, zk.ErrNoChildrenForEphemerals:
		return true
	}
	return false
}

// named checks the name that a sequential create was given.
func (p *program) named(req *zk.Request, zxid zk.Zxid) error {
	res, err := wire.DecodeResult(req.Op, 0, p.c.body)
	if err != nil {
		return err
	}
	if req.Mode.IsEphemeral() {
		p.mine = append(p.mine, res.Path)
	}
	w := p.c.w.watcher
	return w.sequences.Created(res.Path, w.model.Born(zk.ParentPath(res.Path), zxid), zxid)
}

// abandon handles the end of a client: its requests have no answer.
func (p *program) abandon() {
	p.calm = true
	for _, call := range p.open {
		p.c.w.watcher.lines.ended(p.c, call.Owner.(*request), &clientsession.Effect{Call: call})
	}
}

// finish makes the client write and read again at the end, and then be quiet.
func (p *program) finish() {
	p.calm = true
	if p.c.untilMs > p.c.w.nowMs || p.final || p.waiting > 0 || p.c.machine.State() != clientsession.Connected {
		return
	}
	q := p.submit(zk.Request{Op: zk.OpSetData, Path: "/", Data: p.data(), Version: -1})
	q.final = true
}
