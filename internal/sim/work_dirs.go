package sim

import (
	"fmt"

	"github.com/conclave-project/conclave/internal/clientsession"
	"github.com/conclave-project/conclave/zk"
)

// Directories that all clients share, each with a few children, some of them ephemeral:
//
//	/d0 ... /d2          changed, deleted and created again, by one multi or step by step
//	/dN/c0 ... /dN/c3
//	/dN/x                there for a moment before its directory is deleted
const (
	directories = 3
	childNames  = 4
)

func (p *program) dirs() {
	r := p.c.random
	dir := fmt.Sprintf("/d%d", r.below(directories))
	child := p.childOf(dir)
	switch pick := r.below(20); {
	case pick < 2:
		p.submit(zk.Request{Op: zk.OpCreate, Path: dir, Data: p.data(), ACL: zk.OpenACL()})
	case pick < 7:
		p.submit(zk.Request{Op: zk.OpCreate2, Path: child, Data: p.data(), Mode: p.lifeOfChild(), ACL: zk.OpenACL()})
	case pick < 8:
		p.submit(zk.Request{Op: zk.OpDelete, Path: child, Version: -1})
	case pick < 10:
		p.submit(zk.Request{Op: zk.OpSetData, Path: dir, Data: p.data(), Version: -1})
	case pick < 11:
		p.submit(zk.Request{Op: zk.OpGetData, Path: child, Watch: r.oneIn(2)})
	case pick < 13:
		p.submit(zk.Request{Op: zk.OpGetChildren2, Path: dir, Watch: r.oneIn(2)})
	default:
		p.remake(dir)
	}
}

func (p *program) childOf(dir string) string {
	return fmt.Sprintf("%s/c%d", dir, p.c.random.below(childNames))
}

func (p *program) lifeOfChild() zk.CreateMode {
	if p.c.random.oneIn(4) {
		return zk.Ephemeral
	}
	return zk.Persistent
}

// remake reads what a directory contains, changes it, deletes it with everything in it, and
// creates it again with another child. All of this is replayed over a snapshot that has the
// second life under a zxid of the first.
func (p *program) remake(dir string) {
	q := p.submit(zk.Request{Op: zk.OpGetChildren2, Path: dir})
	q.then = func(e *clientsession.Effect, res *zk.Result) {
		if !e.Replied || e.Code != zk.OK && e.Code != zk.ErrNoNode {
			return
		}
		var steps []zk.Request
		if e.Code == zk.OK {
			extra := zk.JoinPath(dir, "x")
			steps = append(steps, zk.Request{Op: zk.OpSetData, Path: dir, Data: p.data(), Version: -1},
				zk.Request{Op: zk.OpCreate, Path: extra, ACL: zk.OpenACL()}, zk.Request{Op: zk.OpDelete, Path: extra, Version: -1})
		}
		for _, name := range res.Children {
			steps = append(steps, zk.Request{Op: zk.OpDelete, Path: zk.JoinPath(dir, name), Version: -1})
		}
		if e.Code == zk.OK {
			steps = append(steps, zk.Request{Op: zk.OpDelete, Path: dir, Version: -1})
		}
		steps = append(steps,
			zk.Request{Op: zk.OpCreate, Path: dir, Data: p.data(), ACL: zk.OpenACL()},
			zk.Request{Op: zk.OpCreate2, Path: p.childOf(dir), Data: p.data(), Mode: p.lifeOfChild(), ACL: zk.OpenACL()})
		if p.c.random.oneIn(2) {
			p.submit(zk.Request{Op: zk.OpMulti, Ops: steps})
			return
		}
		for _, step := range steps {
			p.submit(step)
		}
	}
}
