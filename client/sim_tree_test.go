package client

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/conclave-project/conclave/zk"
)

// multi applies all writes or none. Its header says OK either way, as Apache's does.
func (e *simEnsemble) multi(session zk.SessionID, ops []zk.Request) []zk.Result {
	subs := make([]zk.Result, len(ops))
	for i := range ops {
		if code := e.check(&ops[i]); code != zk.OK {
			for j := range subs {
				subs[j] = zk.Result{Op: zk.OpError, Code: zk.ErrRuntimeInconsistency}
				if j < i {
					subs[j].Code = zk.OK
				}
			}
			subs[i].Code = code
			return subs
		}
	}
	e.zxid++
	for i := range ops {
		subs[i] = zk.Result{Op: ops[i].Op, Path: ops[i].Path}
		e.apply(session, &ops[i], &subs[i])
	}
	return subs
}

// check reports whether a write is possible. The writes of one multi here do not
// depend on each other.
func (e *simEnsemble) check(r *zk.Request) zk.Code {
	node := e.nodes[r.Path]
	switch {
	case r.Op.IsCreate() && node != nil && !r.Mode.IsSequential():
		return zk.ErrNodeExists
	case r.Op.IsCreate() && e.nodes[zk.ParentPath(r.Path)] == nil:
		return zk.ErrNoNode
	case r.Op.IsCreate():
		return zk.OK
	case node == nil:
		return zk.ErrNoNode
	case r.Version >= 0 && node.stat.Version != r.Version:
		return zk.ErrBadVersion
	}
	return zk.OK
}

// apply carries out a write that check has let pass.
func (e *simEnsemble) apply(session zk.SessionID, r *zk.Request, result *zk.Result) {
	switch {
	case r.Op.IsCreate():
		parent := e.nodes[zk.ParentPath(r.Path)]
		if r.Mode.IsSequential() {
			result.Path = fmt.Sprintf("%s%010d", r.Path, parent.stat.Cversion)
		}
		node := &simNode{data: string(r.Data), names: map[string]bool{}}
		node.stat.Czxid, node.stat.Mzxid = e.zxid, e.zxid
		if r.Mode.IsEphemeral() {
			node.stat.EphemeralOwner = int64(session)
		}
		e.nodes[result.Path] = node
		parent.names[result.Path[strings.LastIndexByte(result.Path, '/')+1:]] = true
		e.childChanged(parent)
		result.Stat = node.stat
		e.note(simTxn{e.zxid, zk.EventNodeCreated, result.Path, string(r.Data)})
	case r.Op == zk.OpDelete:
		parent := e.nodes[zk.ParentPath(r.Path)]
		delete(e.nodes, r.Path)
		delete(parent.names, r.Path[strings.LastIndexByte(r.Path, '/')+1:])
		e.childChanged(parent)
		e.note(simTxn{zxid: e.zxid, kind: zk.EventNodeDeleted, path: r.Path})
	case r.Op == zk.OpSetData:
		node := e.nodes[r.Path]
		node.data = string(r.Data)
		node.stat.Mzxid = e.zxid
		node.stat.Version++
		result.Stat = node.stat
		e.note(simTxn{e.zxid, zk.EventNodeDataChanged, r.Path, string(r.Data)})
	}
}

func (e *simEnsemble) childChanged(parent *simNode) {
	parent.stat.Pzxid = e.zxid
	parent.stat.Cversion++
}

// look answers requests that change nothing, and arms their watches.
func (c *simConn) look(r *zk.Request, result *zk.Result) zk.Code {
	node := c.s.e.nodes[r.Path]
	switch r.Op {
	case zk.OpGetData, zk.OpExists, zk.OpGetChildren2:
		if r.Watch && (node != nil || r.Op == zk.OpExists) {
			if r.Op == zk.OpGetChildren2 {
				c.children[r.Path] = true
			} else {
				c.data[r.Path] = true
			}
		}
		if node == nil {
			return zk.ErrNoNode
		}
		result.Data, result.Stat = []byte(node.data), node.stat
		for name := range node.names {
			result.Children = append(result.Children, name)
		}
	case zk.OpAddWatch:
		c.lasting[r.Path] = r.Watches
	case zk.OpRemoveWatches:
		delete(c.lasting, r.Path)
	}
	return zk.OK
}

// closeSession ends a session with its ephemerals. The mutex is held.
func (e *simEnsemble) closeSession(id zk.SessionID) {
	e.zxid++
	var paths []string
	for path, node := range e.nodes {
		if node.stat.EphemeralOwner == int64(id) {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	for _, path := range paths {
		e.apply(id, &zk.Request{Op: zk.OpDelete, Path: path}, &zk.Result{})
	}
	delete(e.sessions, id)
}

// expire ends the sessions whose clients have been silent for too long.
func (e *simEnsemble) expire() {
	e.mu.Lock()
	var over []zk.SessionID
	for id, session := range e.sessions {
		if time.Since(session.touched) >= time.Duration(session.timeoutMs)*time.Millisecond {
			over = append(over, id)
		}
	}
	slices.Sort(over)
	for _, id := range over {
		conn := e.sessions[id].conn
		e.closeSession(id)
		conn.ended = conn.ended || !conn.s.isolated
		e.tell()
	}
	e.mu.Unlock()
	for _, id := range over {
		e.expired(id)
	}
}
