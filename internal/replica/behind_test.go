package replica

import (
	"testing"

	"github.com/conclave-project/conclave/internal/zab"
)

// nobodyThere stands for the clients of a test without any.
type nobodyThere struct{ Clients }

// A session whose heartbeat may be among the waiting events ends when these were handled, not
// before.
func TestSessionsEndWhenAllThatCameWasLookedAt(t *testing.T) {
	const timeoutMs = 4000
	r := New(Options{Zab: zab.Options{ID: 1, TickMs: 1000}, SessionMinMs: 2000, SessionMaxMs: 9000}, nil, Recovered{State: NewState(true)}, Now{MonoMs: 1})
	step := func(now Now) uint64 {
		r.Step(now, []Event{{Kind: EventTick}}, nobodyThere{})
		return uint64(r.counts.Expired)
	}
	step(Now{MonoMs: 10})
	r.sessions.Open(7, timeoutMs, 10)
	const lateMs = 10 + 3*timeoutMs
	if n := step(Now{MonoMs: lateMs, ArrivedMs: 2000, WaitsMs: 2000}); n != 0 {
		t.Error("it has ended, and its heartbeat may wait since 2000 ms")
	}
	if n := step(Now{MonoMs: lateMs + 10, ArrivedMs: 2000, WaitsMs: lateMs}); n != 1 {
		t.Error("it has not ended, and what came before its end was looked at")
	}
}

// Pauses that follow each other must not keep the sessions of dead clients.
func TestPausesThatDoNotEndKeepNoSession(t *testing.T) {
	r := New(Options{Zab: zab.Options{ID: 1, TickMs: 1000}, SessionMinMs: 2000, SessionMaxMs: 9000}, nil, Recovered{State: NewState(true)}, Now{MonoMs: 1})
	r.Step(Now{MonoMs: 10}, nil, nobodyThere{})
	r.sessions.Open(7, 4000, 10)
	nowMs := int64(10)
	for r.counts.Expired == 0 {
		if nowMs += 700; nowMs > 10_000 {
			t.Fatal("a session of 4 s is still there")
		}
		r.Step(Now{MonoMs: nowMs}, []Event{{Kind: EventPaused}, {Kind: EventTick}}, nobodyThere{})
	}
	if nowMs < 4000 {
		t.Errorf("it has ended after %d ms", nowMs)
	}
}

// A machine that is moved stops for a moment, and then for longer than any session may be
// silent. What its clients and the other servers have sent meanwhile arrives after the step
// that finds the second pause.
func TestPauseWithinTheDelayOfAnotherEndsNoLivingSession(t *testing.T) {
	for _, first := range []int64{0, 1100} {
		const tickMs, timeoutMs = 2000, 5000
		r := New(Options{Zab: zab.Options{ID: 1, TickMs: tickMs}, SessionMinMs: 2000, SessionMaxMs: 40000}, nil, Recovered{State: NewState(true)}, Now{MonoMs: 1})
		r.Step(Now{MonoMs: 10}, nil, nobodyThere{})
		s := r.sessions.Open(7, timeoutMs, 10)
		nowMs := int64(10)
		step := func(gapMs int64, heartbeat bool) {
			batch := []Event{{Kind: EventTick}}
			if Paused(gapMs, tickMs) {
				batch = []Event{{Kind: EventPaused}, {Kind: EventTick}} // as the server's loop does
			}
			nowMs += gapMs
			if heartbeat {
				r.sessions.Touch(s, nowMs+TouchIntervalMs(tickMs)) // one of its own connections, as onTouch does
			}
			r.Step(Now{MonoMs: nowMs}, batch, nobodyThere{})
		}
		for range 20 {
			step(500, true)
		}
		if first > 0 {
			step(first, true)
		}
		step(9000, false)
		if r.counts.Expired != 0 {
			t.Errorf("a pause of %d ms before that of 9000 ms: the session of a living client has ended", first)
		}
		if lag := r.pause.lagMs(Now{MonoMs: nowMs}); lag < 9000 {
			t.Errorf("a pause of %d ms before that of 9000 ms: all that arrived %d ms ago is said to have been looked at", first, lag)
		}
		step(1, true)
	}
}
