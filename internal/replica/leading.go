package replica

import (
	"github.com/conclave-project/conclave/internal/prep"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// leading is what only a leader has: what it has decided, and what it has to clear away.
type leading struct {
	prep      *prep.Prep // nil until this server has led
	proposals queue[proposal]
	last      zk.Zxid // last one given
	reapMs    int64   // when to look for containers next
	// reapCredit is how many may be deleted at once, times a minute's milliseconds.
	reapCredit int64
	reapAt     int            // where the look for what may go goes on, 0: it is over
	reapFrom   int            // where the next one begins, for the limit has ended the last; 0: at the newest
	orphans    []zk.SessionID // sessions to end at the next tick
	ends       []zk.SessionID // sessions whose time is over, to be ended, some in each step
	ended      endedSessions  // see isLocal
}

// proposal is a transaction that this server has decided and that is not
// delivered yet: what the peer keeps as bytes, as a value.
type proposal struct {
	header zk.TxnHeader
	prep.Decision
}

// begin leads after a zxid.
func (l *leading) begin(prep *prep.Prep, last zk.Zxid, reapMs int64, orphans []zk.SessionID) {
	l.prep, l.last, l.reapMs, l.orphans = prep, last, reapMs, orphans
}

// leave forgets what was decided.
func (l *leading) leave() {
	l.proposals.drop()
	l.orphans, l.ends, l.reapAt, l.reapFrom = nil, nil, 0, 0
	l.ended = endedSessions{}
}

// number gives the next zxid.
func (l *leading) number(peer *zab.Peer) zk.Zxid {
	l.last = peer.After(l.last)
	return l.last
}

// proposal returns the next transaction, to be decided. It is kept until it is delivered.
func (l *leading) proposal() *proposal { return l.proposals.add() }

// delivered takes out the transaction of a zxid, false if this server has not decided
// it.
func (l *leading) delivered(zxid zk.Zxid, p *proposal) bool {
	first := l.proposals.front()
	if first == nil || first.header.Zxid != zxid {
		return false
	}
	*p = *first
	l.proposals.discard()
	return true
}

// applied notes that the tree has everything up to a zxid.
func (l *leading) applied(zxid zk.Zxid) {
	if l.prep != nil {
		l.prep.Applied(zxid)
	}
}

// end has a session end at the next tick.
func (l *leading) end(id zk.SessionID) { l.orphans = append(l.orphans, id) }

// takeOrphans returns the sessions that are to end now.
func (l *leading) takeOrphans() []zk.SessionID {
	orphans := l.orphans
	l.orphans = nil
	return orphans
}

// endLater keeps sessions that are to be ended.
func (l *leading) endLater(ids []zk.SessionID) { l.ends = append(l.ends, ids...) }

// nextEnd takes out the first of them.
func (l *leading) nextEnd() zk.SessionID {
	id := l.ends[0]
	if l.ends = l.ends[1:]; len(l.ends) == 0 {
		l.ends = nil
	}
	return id
}

// reapDue reports whether it is time to look for what nobody needs any more, among all
// there are or where the last look stopped, and since when that was. An interval of 0 is
// never.
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

// reapLimit returns how many znodes may be deleted in a look, as many as the limit per
// minute allows for the time since the last one. What is left of it is kept, up to one
// znode or one look.
func (l *leading) reapLimit(sinceMs, perMinute, intervalMs int64) int {
	l.reapCredit += sinceMs * perMinute
	limit := int(l.reapCredit / minuteMs)
	l.reapCredit = min(l.reapCredit, max(minuteMs, intervalMs*perMinute))
	return limit
}

// reapOn lets the next tick look on from a place. What is left beyond the limit is the first
// of the next look: new znodes without end, which come before it, do not keep it.
func (l *leading) reapOn(at int, within bool) {
	if l.reapAt, l.reapFrom = at, 0; !within {
		l.reapAt, l.reapFrom = 0, at
	}
}

// reaped counts a znode that was deleted.
func (l *leading) reaped() { l.reapCredit -= minuteMs }
