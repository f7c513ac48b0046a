package replica

import "github.com/conclave-project/conclave/zk"

// endedMax bounds how many ended sessions are remembered.
const endedMax = 1 << 20

// endedSessions holds the endedMax sessions that have ended last. The zero value has none.
type endedSessions struct {
	ms    map[zk.SessionID]int64 // when each session ended
	order queue[endedSession]    // the oldest first
}

type endedSession struct {
	id zk.SessionID
	ms int64
}

func (e *endedSessions) note(id zk.SessionID, nowMs int64) {
	if e.ms == nil {
		e.ms = map[zk.SessionID]int64{}
	}
	e.ms[id] = nowMs
	e.order.push(endedSession{id, nowMs})
	if e.order.size() > endedMax {
		e.forgetFirst()
	}
}

func (e *endedSessions) has(id zk.SessionID) bool {
	_, ended := e.ms[id]
	return ended
}

// forget drops the sessions that ended before a time.
func (e *endedSessions) forget(beforeMs int64) {
	for first := e.order.front(); first != nil && first.ms < beforeMs; first = e.order.front() {
		e.forgetFirst()
	}
}

func (e *endedSessions) forgetFirst() {
	first := e.order.pop()
	if e.ms[first.id] == first.ms { // otherwise the same id was recorded again later
		delete(e.ms, first.id)
	}
}
