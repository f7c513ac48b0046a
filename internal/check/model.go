package check

import (
	"sort"

	"github.com/conclave-project/conclave/zk"
)

const propertyModel = "model"

// Model knows what the tree was at every zxid, from the transactions that were shown. It
// refuses a transaction that is not possible at its place: a server decides a request
// against the tree with everything that was decided before, so a create never finds that
// its znode exists, and a setData never finds it missing. What always holds:
//
//	M1  Transactions come in the order of their zxid.
//	M2  A znode is created once in its life, under a parent that may have
//	    children, and is deleted without children.
//	M3  Data and ACL versions count changes, one by one.
//	M4  Only a session that exists has ephemerals (see ephemeral.go).
//	M5  A request of a client makes one transaction.
//	M6  The requests of a client change the tree in the order in which they were made,
//	    and not after a later answer to the client: none that it has sent on an older
//	    connection comes late (late.go).
//
// What follows from these for a znode's other numbers is in stat.go.
type Model struct {
	last     zk.Zxid
	nodes    map[string]*timeline
	sessions map[zk.SessionID]*life
	by       map[zk.Zxid]origin
	made     map[origin]zk.Zxid
	orders   map[zk.SessionID]*requests
	quotas   map[string]*quota
	changes  []occurrence
}

// occurrence is a change of a znode for which a watch may wait.
type occurrence struct {
	zxid zk.Zxid
	kind zk.EventType
	path string
	acl  []zk.ACL
}

// origin identifies the request of a transaction.
type origin struct {
	session zk.SessionID
	xid     zk.Xid
}

// timeline is the history of a path, oldest state first.
type timeline struct {
	states   []state
	children []childChange
}

// state is a znode from a zxid on. A Czxid of 0 means that it does not exist: it was
// deleted. A multi may change a znode more than once. Then several states have the same
// zxid, and only the last of them may be read.
type state struct {
	zxid         zk.Zxid
	what         what // the change that has led to this state
	exists       bool
	data         uint64 // hash
	dataBytes    int
	czxid, mzxid zk.Zxid
	version      int32
	aversion     int32
	owner        zk.SessionID
	kind         zk.OwnerKind
	ttlMs        int64
	timeMs       int64 // by the leader's clock, when it was created or its data last set
	ctimeMs      int64 // when it was created
	before       int   // changes of children in earlier lives of this path
	acl          []zk.ACL
}

// what is a kind of change of a znode.
type what uint8

const (
	wasCreated what = iota
	wasChanged      // its data
	wasGuarded      // its ACL
	wasDeleted
)

// childChange is the creation or deletion of a child.
type childChange struct {
	zxid  zk.Zxid
	sum   uint64 // of the hashes of all children's names
	count int
}

// life is a session, as transactions show it.
type life struct {
	closed     zk.Zxid
	timeoutMs  int32
	ephemerals map[string]bool
}

// NewModel returns the tree of a new ensemble.
func NewModel() *Model {
	m := &Model{nodes: map[string]*timeline{}, sessions: map[zk.SessionID]*life{}, by: map[zk.Zxid]origin{}, made: map[origin]zk.Zxid{}, orders: map[zk.SessionID]*requests{}, quotas: map[string]*quota{}}
	for _, path := range []string{zk.RootPath, zk.SystemPath, zk.QuotaPath, zk.ConfigPath} {
		m.at(path).states = []state{{exists: true, acl: zk.OpenACL()}}
		if path != zk.RootPath {
			m.changeChild(path, 0, true)
		}
	}
	return m
}

func (m *Model) at(path string) *timeline {
	t := m.nodes[path]
	if t == nil {
		t = &timeline{}
		m.nodes[path] = t
	}
	return t
}

// now returns the newest state of a znode.
func (t *timeline) now() *state {
	if t == nil || len(t.states) == 0 {
		return &state{}
	}
	return &t.states[len(t.states)-1]
}

// when returns the state of a znode at a zxid.
func (t *timeline) when(zxid zk.Zxid) *state {
	if t == nil {
		return &state{}
	}
	n := sort.Search(len(t.states), func(i int) bool { return t.states[i].zxid > zxid })
	if n == 0 {
		return &state{}
	}
	return &t.states[n-1]
}

// childrenWhen returns the number of children at a zxid, and the sum of their names.
func (t *timeline) childrenWhen(zxid zk.Zxid) (count int, sum uint64) {
	if t == nil {
		return 0, 0
	}
	n := sort.Search(len(t.children), func(i int) bool { return t.children[i].zxid > zxid })
	if n == 0 {
		return 0, 0
	}
	return t.children[n-1].count, t.children[n-1].sum
}

func (t *timeline) put(s state) { t.states = append(t.states, s) }

// of returns the states that a transaction has caused, in order, preceded by the state
// before it.
func (t *timeline) of(zxid zk.Zxid) []state {
	if t == nil {
		return []state{{}}
	}
	from := sort.Search(len(t.states), func(i int) bool { return t.states[i].zxid >= zxid })
	to := from + sort.Search(len(t.states)-from, func(i int) bool { return t.states[from+i].zxid > zxid })
	if from > 0 {
		return t.states[from-1 : to]
	}
	return append([]state{{}}, t.states[:to]...)
}

// changeChild records that a child was created or deleted.
func (m *Model) changeChild(path string, zxid zk.Zxid, comes bool) {
	parent, name := zk.SplitPath(path)
	t := m.at(parent)
	count, sum := t.childrenWhen(zxid)
	if comes {
		count++
	} else {
		count--
	}
	t.children = append(t.children, childChange{zxid: zxid, sum: sum ^ hashOf(name), count: count})
}

// hashOf is FNV-1a, with the bits mixed well enough for sums of hashes to be distinct.
func hashOf[T string | []byte](b T) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(b) {
		h = (h ^ uint64(b[i])) * 1099511628211
	}
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// Last returns the zxid up to which the model knows the tree.
func (m *Model) Last() zk.Zxid { return m.last }

// Born returns the zxid that created the znode which is at a path at a zxid; 0 for the
// znodes of every new tree.
func (m *Model) Born(path string, zxid zk.Zxid) zk.Zxid { return m.nodes[path].when(zxid).czxid }

// TimeoutMs returns the timeout that a session was granted when it began; false if it never
// began.
func (m *Model) TimeoutMs(session zk.SessionID) (int32, bool) {
	s := m.sessions[session]
	if s == nil {
		return 0, false
	}
	return s.timeoutMs, true
}

// Apply takes the next transaction that was shown.
func (m *Model) Apply(h *zk.TxnHeader, t *zk.Txn) error {
	if h.Zxid <= m.last {
		return broken(propertyModel, "M1: %s comes after %s", number(h.Zxid), number(m.last))
	}
	m.last = h.Zxid
	o := origin{h.Session, h.Cxid}
	if other, made := m.made[o]; made && h.Cxid > 0 {
		return broken(propertyModel, "M5: request %d of session %v has made %s and %s", h.Cxid, h.Session, number(other), number(h.Zxid))
	}
	m.by[h.Zxid], m.made[o] = o, h.Zxid
	if err := m.inTime(h, t); err != nil {
		return err
	}
	if err := m.alive(h, t); err != nil {
		return err
	}
	if t.Op != zk.OpMulti {
		return m.applyOne(h, t)
	}
	for i := range t.Sub {
		if t.Sub[i].Op == zk.OpError {
			return nil // the whole multi has failed
		}
	}
	for i := range t.Sub {
		if err := m.applyOne(h, &t.Sub[i]); err != nil {
			return err
		}
	}
	return nil
}

func (m *Model) applyOne(h *zk.TxnHeader, t *zk.Txn) error {
	switch t.Op {
	case zk.OpCreate, zk.OpCreate2, zk.OpCreateContainer, zk.OpCreateTTL:
		return m.create(h, t)
	case zk.OpDelete:
		return m.remove(h.Zxid, t.Path)
	case zk.OpDeleteContainer:
		return m.reap(h, t.Path)
	case zk.OpSetData, zk.OpReconfig:
		return m.setData(h, t)
	case zk.OpSetACL:
		return m.setACL(h, t)
	case zk.OpCreateSession:
		return m.createSession(h, t)
	case zk.OpCloseSession:
		return m.closeSession(h, t)
	}
	return nil
}

func (m *Model) create(h *zk.TxnHeader, t *zk.Txn) error {
	node, parent := m.at(t.Path), m.nodes[zk.ParentPath(t.Path)].now()
	switch {
	case node.now().exists:
		return broken(propertyModel, "M2: %s creates %s, which is there since %s", number(h.Zxid), t.Path, number(node.now().czxid))
	case !parent.exists:
		return broken(propertyModel, "M2: %s creates %s without a parent", number(h.Zxid), t.Path)
	case parent.kind == zk.OwnerSession:
		return broken(propertyModel, "M2: %s creates %s under an ephemeral", number(h.Zxid), t.Path)
	}
	s := state{zxid: h.Zxid, exists: true, czxid: h.Zxid, mzxid: h.Zxid, data: hashOf(t.Data), dataBytes: len(t.Data),
		acl: t.ACL, timeMs: h.Time, ctimeMs: h.Time, before: len(node.children)}
	switch {
	case t.Op == zk.OpCreateContainer:
		s.kind = zk.OwnerContainer
	case t.Op == zk.OpCreateTTL:
		s.kind, s.ttlMs = zk.OwnerTTL, t.TTL
	case t.Ephemeral:
		s.kind, s.owner = zk.OwnerSession, h.Session
		if err := m.ephemeralComes(h.Zxid, h.Session, t.Path); err != nil {
			return err
		}
	}
	node.put(s)
	m.changeChild(t.Path, h.Zxid, true)
	m.quotaChanged(h.Zxid, t.Path, t.Data, true)
	m.charge(h.Zxid, t.Path, 1, len(t.Data))
	m.changes = append(m.changes, occurrence{h.Zxid, zk.EventNodeCreated, t.Path, t.ACL}, m.parentChange(h.Zxid, t.Path))
	return nil
}

func (m *Model) remove(zxid zk.Zxid, path string) error {
	node := m.at(path)
	now := *node.now()
	if !now.exists {
		return broken(propertyModel, "M2: %s deletes %s, which is not there", number(zxid), path)
	}
	if count, _ := node.childrenWhen(zxid); count > 0 {
		return broken(propertyModel, "M2: %s deletes %s, which has %d children", number(zxid), path, count)
	}
	if now.kind == zk.OwnerSession {
		m.ephemeralGoes(now.owner, path)
	}
	node.put(state{zxid: zxid, what: wasDeleted, acl: now.acl})
	m.changeChild(path, zxid, false)
	m.quotaChanged(zxid, path, nil, false)
	m.charge(zxid, path, -1, -now.dataBytes)
	m.changes = append(m.changes, occurrence{zxid, zk.EventNodeDeleted, path, now.acl}, m.parentChange(zxid, path))
	return nil
}

// parentChange returns what the creation or deletion of a child is for its parent.
func (m *Model) parentChange(zxid zk.Zxid, path string) occurrence {
	parent := zk.ParentPath(path)
	return occurrence{zxid, zk.EventNodeChildrenChanged, parent, m.nodes[parent].now().acl}
}

func (m *Model) setData(h *zk.TxnHeader, t *zk.Txn) error {
	node := m.at(t.Path)
	s := *node.now()
	switch {
	case !s.exists:
		return broken(propertyModel, "M3: %s sets %s, which is not there", number(h.Zxid), t.Path)
	case t.Op == zk.OpSetData && t.Version != s.version+1:
		return broken(propertyModel, "M3: %s sets %s to version %d, it had version %d", number(h.Zxid), t.Path, t.Version, s.version)
	}
	grown := len(t.Data) - s.dataBytes
	s.zxid, s.mzxid, s.version, s.what = h.Zxid, h.Zxid, t.Version, wasChanged
	s.data, s.dataBytes, s.timeMs = hashOf(t.Data), len(t.Data), h.Time
	node.put(s)
	m.quotaChanged(h.Zxid, t.Path, t.Data, true)
	m.charge(h.Zxid, t.Path, 0, grown)
	m.changes = append(m.changes, occurrence{h.Zxid, zk.EventNodeDataChanged, t.Path, s.acl})
	return nil
}

func (m *Model) setACL(h *zk.TxnHeader, t *zk.Txn) error {
	node := m.at(t.Path)
	s := *node.now()
	if !s.exists || t.Version != s.aversion+1 {
		return broken(propertyModel, "M3: %s sets the ACL of %s to version %d, it had version %d",
			number(h.Zxid), t.Path, t.Version, s.aversion)
	}
	s.zxid, s.aversion, s.acl, s.what = h.Zxid, t.Version, t.ACL, wasGuarded
	node.put(s)
	return nil
}
