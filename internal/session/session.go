// Package session is the table of sessions: which client each belongs to, until when it lasts,
// and which connection it is attached to.
//
// It is a machine: each call passes the milliseconds of a monotonic clock, and nothing happens
// by itself. What always holds:
//
//	session-S1  A session never expires earlier than its timeout after its last
//	            touch, with the timeout that it had then: a shorter timeout does
//	            not take away time that its client may count on. It expires at
//	            most one bucket later (ZooKeeper: one tick).
//	session-S2  A session that is closing stays closing: no touch revives it.
//	session-S3  An id is never given while a session has it.
package session

import (
	"cmp"
	"slices"

	"github.com/conclave-project/conclave/internal/invariant"
	"github.com/conclave-project/conclave/zk"
)

// ConnID identifies a client's connection to this server; 0 is none.
type ConnID uint64

// Session is one client's lease.
type Session struct {
	ID        zk.SessionID
	TimeoutMs int32 // as negotiated on the connection it is attached to
	// LongestMs is the timeout in the log, which every later leader uses. So no client is
	// promised a longer one.
	LongestMs int32
	Conn      ConnID // the connection it is attached to, 0 if none
	Closing   bool   // a closeSession is on its way
	Coming    bool   // its createSession is on its way
	Local     bool   // known to this server alone, see Options of the replica
	Upgrading bool   // a local session whose createSession is on its way
	Owner     uint64 // the server or link that its client is connected to, in the caller's numbers; 0 is not known
	ToldMs    int64  // on a learner: when its leader last learned of a heartbeat

	expiresMs int64 // end of the bucket in which it expires
	bucketMs  int64 // the bucket it is listed in; at or before expiresMs
	place     int   // index in that bucket
}

// Table holds all sessions of a server. It is not safe for concurrent use.
type Table struct {
	byID    map[zk.SessionID]*Session
	buckets map[int64][]*Session // by the millisecond at which they end
	stepMs  int64
	nextMs  int64 // no session is listed in an earlier bucket; 0: none is listed
}

// New returns an empty table. stepMs is the width of an expiry bucket.
func New(stepMs int64) *Table {
	return &Table{byID: map[zk.SessionID]*Session{}, buckets: map[int64][]*Session{}, stepMs: stepMs}
}

// bucket returns the end of the bucket that contains nowMs.
func (t *Table) bucket(nowMs int64) int64 { return (nowMs/t.stepMs + 1) * t.stepMs }

// Open adds a session. A session that exists already gets its full timeout again.
func (t *Table) Open(id zk.SessionID, timeoutMs int32, nowMs int64) *Session {
	s, ok := t.byID[id]
	if !ok {
		s = &Session{ID: id, TimeoutMs: timeoutMs, LongestMs: timeoutMs}
		t.byID[id] = s
		t.list(s, nowMs)
		return s
	}
	t.Touch(s, nowMs)
	return s
}

func (t *Table) list(s *Session, nowMs int64) {
	invariant.Check(!s.Closing, "session: one that is closing gets its timeout again (session-S2)")
	s.expiresMs = t.bucket(nowMs + max(0, int64(s.TimeoutMs)))
	t.put(s, s.expiresMs)
	if t.nextMs == 0 || s.bucketMs < t.nextMs {
		t.nextMs = s.bucketMs
	}
}

func (t *Table) put(s *Session, bucketMs int64) {
	list := t.buckets[bucketMs]
	s.bucketMs, s.place = bucketMs, len(list)
	t.buckets[bucketMs] = append(list, s)
}

// NextMs returns when Expire may have something to do; false if there is no session. The time
// may be too early, never too late.
func (t *Table) NextMs() (int64, bool) { return t.nextMs, t.nextMs != 0 }

// Get returns a session; nil if there is none.
func (t *Table) Get(id zk.SessionID) *Session { return t.byID[id] }

// Count returns the number of sessions.
func (t *Table) Count() int { return len(t.byID) }

// Touch gives a session its full timeout again. The session moves to its new bucket only when
// the old one ends, so a touch costs next to nothing.
func (t *Table) Touch(s *Session, nowMs int64) {
	if s.Closing {
		return
	}
	s.expiresMs = max(s.expiresMs, t.bucket(nowMs+int64(s.TimeoutMs)))
}

// Resume attaches a session with a newly negotiated timeout to a connection.
func (t *Table) Resume(s *Session, conn ConnID, timeoutMs int32, nowMs int64) {
	s.Conn, s.TimeoutMs = conn, timeoutMs
	t.Touch(s, nowMs)
}

// Remove removes a session.
func (t *Table) Remove(id zk.SessionID) {
	s, ok := t.byID[id]
	if !ok {
		return
	}
	delete(t.byID, id)
	t.unlist(s)
}

// unlist removes a session from its bucket by moving the last one to its place, because all
// sessions of one timeout may be in one bucket. Expired sessions are in no bucket.
func (t *Table) unlist(s *Session) {
	list := t.buckets[s.bucketMs]
	if s.place >= len(list) || list[s.place] != s {
		return
	}
	last := len(list) - 1
	list[s.place] = list[last]
	list[s.place].place = s.place
	list[last] = nil
	if t.buckets[s.bucketMs] = list[:last]; last == 0 {
		delete(t.buckets, s.bucketMs)
	}
}

// Expire marks the sessions that have expired as closing and returns their ids, sorted. Each is
// returned once; it stays in the table until Remove.
func (t *Table) Expire(nowMs int64) []zk.SessionID {
	var expired []zk.SessionID
	last := t.bucket(nowMs) - t.stepMs
	if t.nextMs == 0 || t.nextMs > last {
		return nil
	}
	for _, end := range t.ended(last) {
		list := t.buckets[end]
		delete(t.buckets, end)
		for _, s := range list {
			switch {
			case s.Closing:
			case s.expiresMs > last:
				t.put(s, s.expiresMs)
			default:
				invariant.Check(s.expiresMs <= nowMs, "session: one expires before its time (session-S1)")
				s.Closing = true
				expired = append(expired, s.ID)
			}
		}
	}
	t.nextMs = 0
	for end := range t.buckets {
		if t.nextMs == 0 || end < t.nextMs {
			t.nextMs = end
		}
	}
	slices.Sort(expired)
	return expired
}

// ended returns the ends of the buckets up to last, sorted. It looks through the table instead
// of counting up to last, because any amount of time may have passed while the machine was
// suspended.
func (t *Table) ended(last int64) []int64 {
	var ends []int64
	for end := range t.buckets {
		if end <= last {
			ends = append(ends, end)
		}
	}
	slices.Sort(ends)
	return ends
}

// Reset starts again, as the server does between two roles: sessions that were never created
// are removed, none is closing or attached, and each has the full timeout from the log again.
func (t *Table) Reset(nowMs int64) {
	clear(t.buckets)
	t.nextMs = 0
	for id, s := range t.byID {
		if s.Coming {
			delete(t.byID, id)
			continue
		}
		s.Closing, s.Conn, s.Owner, s.TimeoutMs = false, 0, 0, s.LongestMs
		t.list(s, nowMs)
	}
}

// RemoveUpgrading removes the local sessions whose createSession is on its way.
func (t *Table) RemoveUpgrading() {
	for id, s := range t.byID {
		if s.Upgrading {
			t.Remove(id)
		}
	}
}

// Clear removes all sessions.
func (t *Table) Clear() {
	clear(t.byID)
	clear(t.buckets)
	t.nextMs = 0
}

// Lease is a session as a snapshot stores it.
type Lease struct {
	ID        zk.SessionID
	TimeoutMs int32
}

// Leases returns the sessions that a snapshot stores, sorted by id: those whose creation has
// been delivered (ZOOKEEPER-2926). The creation of a session that is still on its way may be
// lost in a crash, and then no snapshot may have it.
func (t *Table) Leases() []Lease {
	all := make([]Lease, 0, len(t.byID))
	for id, s := range t.byID {
		if !s.Coming && !s.Local {
			all = append(all, Lease{id, s.LongestMs})
		}
	}
	slices.SortFunc(all, func(a, b Lease) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return all
}

// Bucket is a set of sessions that expire together.
type Bucket struct {
	EndsMs   int64
	Sessions []zk.SessionID
}

// Buckets returns which sessions expire at what time if they send no heartbeat.
func (t *Table) Buckets() []Bucket {
	byEnd := map[int64][]zk.SessionID{}
	for id, s := range t.byID {
		byEnd[s.expiresMs] = append(byEnd[s.expiresMs], id)
	}
	out := make([]Bucket, 0, len(byEnd))
	for end, ids := range byEnd {
		slices.Sort(ids)
		out = append(out, Bucket{end, ids})
	}
	slices.SortFunc(out, func(a, b Bucket) int { return cmp.Compare(a.EndsMs, b.EndsMs) })
	return out
}
