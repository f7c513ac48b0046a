package replica

import (
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// request makes a random request over few paths, so that requests collide.
func (m *model) request() zk.Request {
	paths := []string{"/a", "/a", "/a", "/b", "/a/x", "/a/y", "/b/z"}
	if m.random.IntN(8) == 0 {
		paths = []string{"/c", "/a/x/deep", "", "/", "/zookeeper", "bad", "/bad/"}
	}
	r := zk.Request{Path: paths[m.random.IntN(len(paths))], Version: -1, TTL: -1}
	if m.random.IntN(4) == 0 {
		r.Version = int32(m.random.IntN(3))
	}
	ops := []zk.Op{
		zk.OpCreate, zk.OpCreate, zk.OpCreate, zk.OpCreate, zk.OpCreate2, zk.OpCreateContainer, zk.OpCreateTTL, zk.OpDelete, zk.OpDelete, zk.OpSetData,
		zk.OpSetData, zk.OpSetACL, zk.OpMulti, zk.OpMulti, zk.OpGetData, zk.OpGetData, zk.OpGetData, zk.OpExists,
		zk.OpGetChildren2, zk.OpPing, zk.OpSync, zk.OpGetEphemerals, zk.OpAddWatch, zk.OpRemoveWatches, zk.OpWhoAmI, zk.OpGetACL,
	}
	r.Op = ops[m.random.IntN(len(ops))]
	if m.random.IntN(60) == 0 {
		r.Op = []zk.Op{zk.OpCloseSession, zk.OpReconfig, 999}[m.random.IntN(3)]
	}
	m.body(&r)
	for r.Op == zk.OpMulti && len(r.Ops) < 1+m.random.IntN(5) {
		sub := m.request()
		if sub.Op.IsCreate() || sub.Op == zk.OpDelete || sub.Op == zk.OpSetData || sub.Op == zk.OpGetData {
			if sub.Op == zk.OpGetData {
				sub.Op = zk.OpCheck
			}
			r.Ops = append(r.Ops, sub)
		}
	}
	return r
}

func (m *model) body(r *zk.Request) {
	r.Data = make([]byte, m.random.IntN(200))
	r.ACL = zk.OpenACL()
	if m.random.IntN(6) == 0 {
		r.ACL = zk.CreatorACL()
	}
	r.Watch = m.random.IntN(2) == 0
	r.Watches = zk.WatchMode(m.random.IntN(2))
	r.Watcher = zk.WatcherAny
	switch r.Op {
	case zk.OpCreate, zk.OpCreate2:
		r.Mode = zk.CreateMode(m.random.IntN(4))
	case zk.OpCreateTTL:
		r.Mode, r.TTL = zk.PersistentTTL, 1+int64(m.random.IntN(9000))
	case zk.OpMulti:
		r.Path, r.Ops = "", []zk.Request{}
	}
}

// live returns a connection that may be sent something.
func (m *model) live(id session.ConnID, what string) *modelConn {
	c := m.conns[id]
	if c.closed {
		m.t.Errorf("connection %d gets a %s after its end", id, what)
	}
	return c
}

// Connected implements Clients.
func (m *model) Connected(id session.ConnID, r *wire.ConnectResponse) {
	c := m.live(id, "handshake")
	if r.Session == 0 {
		return
	}
	for zxid, h := range m.heads {
		if h.Session == r.Session && h.Op == zk.OpCreateSession && zxid > m.synced {
			m.t.Errorf("R1: session %s is told before its creation is on disk", r.Session)
		}
		if h.Session == r.Session && h.Op == zk.OpCloseSession && zxid <= m.replica.Tree().LastZxid() {
			m.t.Errorf("session %s is told after its end", r.Session)
		}
	}
	for _, other := range m.conns {
		if other != c && other.session == r.Session && !other.closed && !other.gone {
			m.t.Errorf("connections %d and %d have session %s", other.id, id, r.Session)
		}
	}
	c.session = r.Session
	m.known = append(m.known, r.Session)
}

// Reply implements Clients.
func (m *model) Reply(id session.ConnID, h wire.ReplyHeader, res *zk.Result) {
	c := m.live(id, "reply")
	if len(c.asked) == 0 || c.asked[0].Xid != h.Xid {
		m.t.Fatalf("R3: connection %d gets %d, waits for %+v", id, h.Xid, c.asked)
	}
	r := c.asked[0]
	c.asked = c.asked[1:]
	if h.Zxid > m.synced {
		m.t.Errorf("R1: reply shows %d, on disk is %d", h.Zxid, m.synced)
	}
	if h.Zxid > 0 && h.Zxid < m.last {
		m.t.Errorf("R2: reply of %d after %d", h.Zxid, m.last)
	}
	m.last = max(m.last, h.Zxid)
	head, own := m.heads[h.Zxid]
	if r.Op.IsWrite() && own && head.Session == c.session && head.Cxid == h.Xid {
		m.decided(h, m.txns[h.Zxid], res)
	}
	if r.Op == zk.OpGetData && h.Code == zk.OK {
		m.seen(c, r, res)
	}
	if r.Op == zk.OpRemoveWatches || h.Code == zk.ErrNoAuth {
		delete(c.watched, r.Path) // removed, or to be fired silently
	}
}

// decided checks that applying did what was decided (prep-D2).
func (m *model) decided(h wire.ReplyHeader, t zk.Txn, res *zk.Result) {
	switch {
	case t.Op == zk.OpError:
		if h.Code != t.Code {
			m.t.Errorf("decided %v, answered %v", t.Code, h.Code)
		}
	case h.Code != zk.OK:
		m.t.Errorf("D2: %s of %d fails with %v when it is applied", t.Op, h.Zxid, h.Code)
	case t.Op == zk.OpMulti:
		failed := false
		for i := range t.Sub {
			failed = failed || t.Sub[i].Op == zk.OpError
		}
		for i := range res.Sub {
			if !failed && res.Sub[i].Code != zk.OK {
				m.t.Errorf("D2: part %d of %d fails with %v when it is applied", i, h.Zxid, res.Sub[i].Code)
			}
		}
	}
}

// seen checks that a watch reported a change before a read shows it (replica-R4).
func (m *model) seen(c *modelConn, r zk.Request, res *zk.Result) {
	path := r.Path
	if path == "" {
		return // the root's other name is watched separately
	}
	m.looked++
	if at, watched := c.watched[path]; watched && res.Stat.Mzxid > at {
		m.t.Errorf("R4: connection %d sees %d of %s, its watch of %d has not told", c.id, res.Stat.Mzxid, path, at)
	}
	if r.Watch {
		c.watched[path] = res.Stat.Mzxid
	}
}

// Reached implements Clients.
func (m *model) Reached(id session.ConnID) { m.live(id, "own read") }

// Notify implements Clients.
func (m *model) Notify(conns []session.ConnID, e *zk.Event) {
	for _, id := range conns {
		c := m.live(id, "event")
		if e.Zxid > m.synced {
			m.t.Errorf("R1: event of %d, on disk is %d", e.Zxid, m.synced)
		}
		delete(c.watched, e.Path)
		m.told++
	}
}

// Notified implements Clients.
func (m *model) Notified() {}

// Close implements Clients.
func (m *model) Close(id session.ConnID) { m.live(id, "close").closed = true }
