package check

import (
	"maps"
	"slices"

	"github.com/conclave-project/conclave/zk"
)

const propertyEphemeral = "ephemeral"

// The life of sessions and their ephemerals, as the transactions show it:
//
//	E1  A session's id is given once.
//	E2  An ephemeral is created only while its session exists.
//	E3  The end of a session deletes all its ephemerals, in one transaction, and
//	    no others.
//	E4  A session ends once; a second proposal of its end finds nothing.
//	E5  No server attaches a session that has ended in its tree.
//	E6  A session that has ended changes nothing any more.

func (m *Model) createSession(h *zk.TxnHeader, t *zk.Txn) error {
	if m.sessions[h.Session] != nil {
		return broken(propertyEphemeral, "E1: %s gives the id of session %v again", number(h.Zxid), h.Session)
	}
	m.sessions[h.Session] = &life{timeoutMs: t.TimeoutMs, ephemerals: map[string]bool{}}
	return nil
}

// alive checks that a client's transaction does not belong to a session that has ended.
func (m *Model) alive(h *zk.TxnHeader, t *zk.Txn) error {
	s := m.sessions[h.Session]
	if s == nil || s.closed == 0 || h.Cxid == 0 || t.Op == zk.OpCloseSession || ChangesNothing(t) {
		return nil
	}
	return broken(propertyEphemeral, "E6: %s is of session %v, which has ended at %s", number(h.Zxid), h.Session, number(s.closed))
}

func (m *Model) ephemeralComes(zxid zk.Zxid, session zk.SessionID, path string) error {
	s := m.sessions[session]
	if s == nil || s.closed != 0 {
		return broken(propertyEphemeral, "E2: %s creates %s for session %v, which does not exist", number(zxid), path, session)
	}
	s.ephemerals[path] = true
	return nil
}

func (m *Model) ephemeralGoes(session zk.SessionID, path string) {
	delete(m.sessions[session].ephemerals, path)
}

func (m *Model) closeSession(h *zk.TxnHeader, t *zk.Txn) error {
	s := m.sessions[h.Session]
	if s == nil {
		return broken(propertyEphemeral, "E4: %s ends session %v, which never was", number(h.Zxid), h.Session)
	}
	if t.HasPaths {
		gone := slices.Clone(t.Paths)
		slices.Sort(gone)
		if want := slices.Sorted(maps.Keys(s.ephemerals)); !slices.Equal(gone, want) {
			return broken(propertyEphemeral, "E3: the end of session %v at %s takes %q, its ephemerals are %q",
				h.Session, number(h.Zxid), gone, want)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(s.ephemerals)) {
		if err := m.remove(h.Zxid, path); err != nil {
			return err
		}
	}
	if s.closed == 0 {
		s.closed = h.Zxid
	}
	return nil
}

// Attached says that a server whose tree is at zxid has attached a session.
func (m *Model) Attached(session zk.SessionID, zxid zk.Zxid) error {
	if s := m.sessions[session]; s != nil && s.closed != 0 && s.closed <= zxid {
		return broken(propertyEphemeral, "E5: session %v is attached at %s, and has ended at %s", session, number(zxid), number(s.closed))
	}
	return nil
}

// Knows reports whether a transaction has created a session.
func (m *Model) Knows(session zk.SessionID) bool { return m.sessions[session] != nil }

// Alive reports whether a session exists after the last known transaction.
func (m *Model) Alive(session zk.SessionID) bool {
	s := m.sessions[session]
	return s != nil && s.closed == 0
}

// Sessions returns the sessions that exist after the last known transaction.
func (m *Model) Sessions() []zk.SessionID {
	var alive []zk.SessionID
	for _, id := range slices.Sorted(maps.Keys(m.sessions)) {
		if m.Alive(id) {
			alive = append(alive, id)
		}
	}
	return alive
}

// Owned compares the ephemerals of a session in a server's tree, after the last known
// transaction, with those that it should have.
func (m *Model) Owned(session zk.SessionID, paths []string) error {
	var want []string
	if s := m.sessions[session]; s != nil {
		want = slices.Sorted(maps.Keys(s.ephemerals))
	}
	if got := slices.Sorted(slices.Values(paths)); !slices.Equal(got, want) {
		return broken(propertyEphemeral, "E3: session %v has the ephemerals %q in a tree, and should have %q", session, got, want)
	}
	return nil
}
