package replica

import (
	"cmp"
	"slices"

	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/zk"
)

// State is the data of a server: the tree, and the sessions with their timeouts. It is filled
// from a snapshot, its own or a leader's, and then from the log; a replica adopts it as a
// whole.
type State struct {
	tree     *tree.Tree
	sessions map[zk.SessionID]int32 // timeout in ms
	loader   *tree.Loader
	applied  tree.Applied
	scratch  tree.Scratch // for Sum
	configs  loggedConfigs
}

// NewState returns the state of a new ensemble, with or without TTL znodes (extendedTypes).
func NewState(extendedTypes bool) *State {
	return &State{
		tree:     tree.New(tree.Options{ExtendedTypes: extendedTypes}),
		sessions: map[zk.SessionID]int32{},
	}
}

// Tree returns the tree.
func (s *State) Tree() *tree.Tree { return s.tree }

// Sessions returns how many sessions there are.
func (s *State) Sessions() int { return len(s.sessions) }

// Leases returns the sessions as a snapshot stores them, sorted by id.
func (s *State) Leases() []session.Lease {
	all := make([]session.Lease, 0, len(s.sessions))
	for id, timeoutMs := range s.sessions {
		all = append(all, session.Lease{ID: id, TimeoutMs: timeoutMs})
	}
	slices.SortFunc(all, func(a, b session.Lease) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// Session adds a session of a snapshot.
func (s *State) Session(id zk.SessionID, timeoutMs int32) error {
	s.sessions[id] = timeoutMs
	return nil
}

// ACL adds an entry of a snapshot's table of ACLs.
func (s *State) ACL(id int64, entries []zk.ACL) error {
	s.load().ACL(id, entries)
	return nil
}

// Node adds a znode of a snapshot.
func (s *State) Node(path string, data []byte, acl int64, stat zk.StatPersisted) error {
	return s.load().Node(path, data, acl, stat)
}

// Sum computes the sums of a znode of a snapshot. Unlike the other methods it depends on
// nothing else: one goroutine may call it while another one calls them.
func (s *State) Sum(path string, data []byte, stat *zk.StatPersisted) (body uint32, znode uint64) {
	sums := tree.SumsOf(path, data, stat, &s.scratch)
	return sums.Body, sums.Znode
}

// NodeSummed is Node with the result of Sum.
func (s *State) NodeSummed(path string, data []byte, acl int64, stat zk.StatPersisted, body uint32, znode uint64) error {
	return s.load().NodeSummed(path, data, acl, stat, tree.Sums{Body: body, Znode: znode})
}

// Expect reserves space for the number of znodes in a snapshot.
func (s *State) Expect(znodes int) { s.load().Expect(znodes) }

// Prepare is given the paths of the znodes that come next.
func (s *State) Prepare(paths []string) { s.load().Prepare(paths) }

func (s *State) load() *tree.Loader {
	if s.loader == nil {
		s.loader = s.tree.Load()
	}
	return s.loader
}

// Finish ends the loading of a snapshot whose zxid is given.
func (s *State) Finish(zxid zk.Zxid) {
	s.load().Finish(zxid)
	s.loader = nil
	if text, version := reconfigIn(s.tree); version != 0 {
		s.configs.note(text)
	}
}

// Replay applies a transaction from the log. It reports whether the transaction's digest, if it
// has one, is that of the tree.
func (s *State) Replay(h *zk.TxnHeader, t *zk.Txn, digest zk.Digest) (equal bool) {
	s.tree.Apply(h, t, &s.applied)
	switch t.Op {
	case zk.OpCreateSession:
		s.sessions[h.Session] = t.TimeoutMs
	case zk.OpCloseSession:
		delete(s.sessions, h.Session)
	case zk.OpReconfig:
		s.configs.note(t.Data)
	}
	return digest.Version != zk.DigestVersion || digest == s.tree.Digest()
}

// TTLWithoutSetting returns a TTL znode in a state without extended types, if there is one: its
// owner looks like a session that does not exist.
func (s *State) TTLWithoutSetting() (path string, ttlMs int64, ok bool) {
	for _, owner := range s.tree.EphemeralOwners() {
		if s.sessions[owner] == 0 && isTTL(owner) {
			return s.tree.Ephemerals(owner, "")[0], zk.TTLOf(int64(owner)), true
		}
	}
	return "", 0, false
}

// isTTL reports whether an owner would be a TTL with extended types on.
func isTTL(owner zk.SessionID) bool { return zk.KindOfOwner(int64(owner), true) == zk.OwnerTTL }

// adopt makes a state the replica's own, between two roles.
func (r *Replica) adopt(s *State) {
	r.tree.Become(s.tree)
	if r.opts.Auth.Groups.On {
		r.tree.Lock()
		r.readMap()
		r.tree.Unlock()
	}
	r.trust.replaced()
	r.sessions.Clear()
	for id, timeoutMs := range s.sessions {
		r.sessions.Open(id, timeoutMs, r.now.MonoMs)
		r.locals.Remove(id) // it was upgraded while this server had no role
	}
}

// findOrphans returns the sessions that own ephemerals but do not exist: an older server left
// them. ZooKeeper's leader deletes them in its own tree alone. An owner that may be the TTL of
// a server with extended types stays: this server, without extended types, may have received it
// from a leader.
func (r *Replica) findOrphans() []zk.SessionID {
	var ids []zk.SessionID
	for _, id := range r.tree.EphemeralOwners() {
		if r.sessions.Get(id) == nil && !isTTL(id) {
			ids = append(ids, id)
		}
	}
	return ids
}
