package client

import (
	"strings"

	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// note logs a change and notifies all connections that watch it, before they
// can receive anything that shows the change. The mutex is held.
func (e *simEnsemble) note(txn simTxn) {
	e.log = append(e.log, txn)
	if strings.HasPrefix(txn.path, "/w/") {
		e.children = append(e.children, txn)
	}
	for _, s := range e.servers {
		for c := range s.conns {
			c.changed(txn.kind, txn.path)
			if txn.kind != zk.EventNodeDataChanged {
				c.changed(zk.EventNodeChildrenChanged, zk.ParentPath(txn.path))
			}
		}
	}
}

// changed notifies a connection once of a change that it watches.
func (c *simConn) changed(kind zk.EventType, path string) {
	told := false
	if kind != zk.EventNodeChildrenChanged && c.data[path] {
		delete(c.data, path)
		told = true
	}
	if (kind == zk.EventNodeChildrenChanged || kind == zk.EventNodeDeleted) && c.children[path] {
		delete(c.children, path)
		told = true
	}
	if mode, ok := c.lasting[path]; ok && (mode == zk.WatchPersistent || kind != zk.EventNodeChildrenChanged) {
		told = true
	}
	for watched, mode := range c.lasting {
		below := strings.HasPrefix(path, watched+"/") && kind != zk.EventNodeChildrenChanged
		told = told || mode == zk.WatchPersistentRecursive && below
	}
	if told && !(c.s.e.watchLost && c.s.e.rng.IntN(20) == 0) {
		c.put(wire.AppendEvent(nil, &zk.Event{Type: kind, State: zk.StateSyncConnected, Path: path, Zxid: c.s.e.zxid}))
	}
}

// rearm arms watches on a new connection, and reports at once what has changed
// since the zxid that the client saw last. The mutex is held.
func (c *simConn) rearm(set *zk.SetWatches) {
	e := c.s.e
	fire := func(kind zk.EventType, path string) {
		c.put(wire.AppendEvent(nil, &zk.Event{Type: kind, State: zk.StateSyncConnected, Path: path, Zxid: zk.NoZxid}))
	}
	for _, path := range set.Data {
		switch node := e.nodes[path]; {
		case node == nil:
			fire(zk.EventNodeDeleted, path)
		case node.stat.Mzxid > set.RelativeZxid:
			fire(zk.EventNodeDataChanged, path)
		default:
			c.data[path] = true
		}
	}
	for _, path := range set.Exist {
		if e.nodes[path] != nil {
			fire(zk.EventNodeCreated, path)
		} else {
			c.data[path] = true
		}
	}
	for _, path := range set.Child {
		switch node := e.nodes[path]; {
		case node == nil:
			fire(zk.EventNodeDeleted, path)
		case node.stat.Pzxid > set.RelativeZxid:
			fire(zk.EventNodeChildrenChanged, path)
		default:
			c.children[path] = true
		}
	}
	for _, path := range set.Persistent {
		c.lasting[path] = zk.WatchPersistent
	}
	for _, path := range set.Recursive {
		c.lasting[path] = zk.WatchPersistentRecursive
	}
}
