package replica

import (
	"slices"

	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// touches are the heartbeats of a learner's clients that its leader was not told of.
type touches struct {
	timeouts map[zk.SessionID]int32 // since the last ping: timeout in ms
	toldStep uint64                 // in which the leader was last told of them before a ping of its own
	toldMs   int64                  // when that was
}

// touchesMax is how many sessions one ping brings: a packet takes no more, also one to
// Apache's leader with the default jute.maxbuffer. Others go ahead of it.
const touchesMax = 64 << 10

// note adds a heartbeat of a session, which has a timeout where its client is, and reports
// whether it is too long since the leader was told of one: it is told with its next ping,
// twice a tick, which is in time unless the client was silent for long or its timeout is
// short. By way of an observer master it is on its way for as long as viaMs more.
func (t *touches) note(s *session.Session, timeoutMs int32, nowMs, tickMs, viaMs int64) (urgent bool) {
	t.timeouts[s.ID] = timeoutMs
	return nowMs-s.ToldMs > min(int64(timeoutMs)/2, int64(timeoutMs)-tickMs)-viaMs
}

// untold reports whether a heartbeat of a session waits.
func (t *touches) untold(id zk.SessionID) bool {
	_, ok := t.timeouts[id]
	return ok
}

// forget drops the heartbeat of a session that has ended.
func (t *touches) forget(id zk.SessionID) { delete(t.timeouts, id) }

// clear drops all of them.
func (t *touches) clear() { clear(t.timeouts) }

// tell reports whether the leader is to be told at once: one message is enough for all
// that ask for it in a step.
func (t *touches) tell(step uint64, nowMs int64) bool {
	if t.toldStep == step {
		return false
	}
	t.toldStep, t.toldMs = step, nowMs
	return true
}

// take returns the sessions touched since the last time, in an order that depends on
// nothing else.
func (t *touches) take(sessions *session.Table, nowMs int64) []zab.Touch {
	all := make([]zab.Touch, 0, len(t.timeouts))
	for id, timeoutMs := range t.timeouts {
		if s := sessions.Get(id); s != nil {
			s.ToldMs = nowMs
		}
		all = append(all, zab.Touch{Session: id, TimeoutMs: timeoutMs})
	}
	t.clear()
	slices.SortFunc(all, func(a, b zab.Touch) int {
		if a.Session < b.Session {
			return -1
		}
		return 1
	})
	return all
}
