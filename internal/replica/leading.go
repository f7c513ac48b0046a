package replica

import (
	"math"

	"github.com/conclave-project/conclave/internal/prep"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// leading is what only a leader has: what it has decided, and what it has to clean up.
type leading struct {
	prep      *prep.Prep // nil until this server has led
	proposals queue[proposal]
	last      zk.Zxid // last zxid assigned
	reapMs    int64   // when to look for containers next
	// reapCredit is how many znodes may be deleted at once, multiplied by the milliseconds of a
	// minute.
	reapCredit int64
	reapAt     int            // where the search for deletable znodes continues, 0: it is finished
	reapFrom   int            // where the next search begins if the limit has ended the last one; 0: at the newest
	orphans    []zk.SessionID // sessions to end at the next tick
	ends       []zk.SessionID // expired sessions that are still to be ended, some in each step
	ended      endedSessions  // see isLocal
}

// proposal is a transaction that this server has decided and that is not delivered yet. The
// peer keeps it as bytes, this is its value.
type proposal struct {
	header zk.TxnHeader
	prep.Decision
}

// begin starts to lead after a zxid.
func (l *leading) begin(prep *prep.Prep, last zk.Zxid, reapMs int64, orphans []zk.SessionID) {
	l.prep, l.last, l.reapMs, l.orphans = prep, last, reapMs, orphans
}

// leave forgets what was decided.
func (l *leading) leave() {
	l.proposals.drop()
	l.orphans, l.ends, l.reapAt, l.reapFrom = nil, nil, 0, 0
	l.ended = endedSessions{}
}

// number assigns the next zxid.
func (l *leading) number(peer *zab.Peer) zk.Zxid {
	l.last = peer.After(l.last)
	return l.last
}

// proposal returns space for the next transaction, to be decided. It is kept until it is
// delivered.
func (l *leading) proposal() *proposal { return l.proposals.add() }

// delivered removes the transaction of a zxid and fills it in; false if this server has not
// decided it.
func (l *leading) delivered(zxid zk.Zxid, p *proposal) bool {
	first := l.proposals.front()
	if first == nil || first.header.Zxid != zxid {
		return false
	}
	*p = *first
	l.proposals.discard()
	return true
}

// applied records that the tree has everything up to a zxid.
func (l *leading) applied(zxid zk.Zxid) {
	if l.prep != nil {
		l.prep.Applied(zxid)
	}
}

// end makes a session end at the next tick.
func (l *leading) end(id zk.SessionID) { l.orphans = append(l.orphans, id) }

// takeOrphans returns the sessions that must end now.
func (l *leading) takeOrphans() []zk.SessionID {
	orphans := l.orphans
	l.orphans = nil
	return orphans
}

// endLater adds sessions that are to be ended.
func (l *leading) endLater(ids []zk.SessionID) { l.ends = append(l.ends, ids...) }

// nextEnd removes and returns the first of them.
func (l *leading) nextEnd() zk.SessionID {
	id := l.ends[0]
	if l.ends = l.ends[1:]; len(l.ends) == 0 {
		l.ends = nil
	}
	return id
}

// reapDue reports whether it is time to search for znodes that nobody needs any more, either
// among all of them or from where the last search stopped. It also returns the time since the
// last search began. An interval of 0 means never.
func (l *leading) reapDue(nowMs, intervalMs int64, all int) (sinceMs int64, due bool) {
	if l.reapAt > 0 {
		return 0, true
	}
	if intervalMs <= 0 || nowMs < l.reapMs {
		return 0, false
	}
	sinceMs = nowMs - l.reapMs + intervalMs
	l.reapMs, l.reapAt = nowMs+intervalMs, all
	if l.reapFrom > 0 {
		l.reapAt = min(l.reapFrom, all)
	}
	return sinceMs, true
}

const minuteMs = 60_000

// reapLimit returns how many znodes a search may delete: as many as the limit per minute allows
// for the time since the last search. What remains of the limit is kept, up to one znode or one
// search.
func (l *leading) reapLimit(sinceMs, perMinute, intervalMs int64) int {
	l.reapCredit += sinceMs * perMinute
	limit := int(min(l.reapCredit/minuteMs, math.MaxInt32)) // also where an int has 32 bits
	l.reapCredit = min(l.reapCredit, max(minuteMs, intervalMs*perMinute))
	return limit
}

// reapOn makes the next tick continue the search from a place. If the limit was reached, the
// rest comes first in the next search, so an endless stream of new znodes, which would come
// before it, does not keep it alive.
func (l *leading) reapOn(at int, within bool) {
	if l.reapAt, l.reapFrom = at, 0; !within {
		l.reapAt, l.reapFrom = 0, at
	}
}

// reaped counts a znode that was deleted.
func (l *leading) reaped() { l.reapCredit -= minuteMs }
