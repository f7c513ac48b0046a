package replica

import (
	"slices"

	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// touches are the heartbeats of a learner's clients that its leader has not been told of yet.
type touches struct {
	timeouts map[zk.SessionID]int32 // since the last ping: timeout in ms
	toldStep uint64                 // the step in which the leader was last told of them without waiting for its ping
	toldMs   int64                  // when that was
}

// touchesMax is how many sessions fit into one ping: a packet must not be larger, for an Apache
// leader with the default jute.maxbuffer either. The rest goes in packets ahead of the ping.
const touchesMax = 64 << 10

// note adds a heartbeat of a session, with the timeout that the session has where its client is
// connected. It reports whether the heartbeat is urgent because the leader was last told of the
// session too long ago. Otherwise it goes with the answer to the leader's next ping, twice a
// tick, which is in time unless the client was silent for long or its timeout is short. Through
// an observer master a heartbeat takes up to viaMs longer.
func (t *touches) note(s *session.Session, timeoutMs int32, nowMs, tickMs, viaMs int64) (urgent bool) {
	t.timeouts[s.ID] = timeoutMs
	return nowMs-s.ToldMs > min(int64(timeoutMs)/2, int64(timeoutMs)-tickMs)-viaMs
}

// untold reports whether a heartbeat of a session waits to be sent.
func (t *touches) untold(id zk.SessionID) bool {
	_, ok := t.timeouts[id]
	return ok
}

// forget drops the heartbeat of a session that has ended.
func (t *touches) forget(id zk.SessionID) { delete(t.timeouts, id) }

// clear drops all heartbeats.
func (t *touches) clear() { clear(t.timeouts) }

// tell reports whether to tell the leader at once: one message is enough for everything that
// asks for it in a step.
func (t *touches) tell(step uint64, nowMs int64) bool {
	if t.toldStep == step {
		return false
	}
	t.toldStep, t.toldMs = step, nowMs
	return true
}

// take removes and returns the sessions touched since the last call, sorted, so that the order
// depends on nothing else.
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
