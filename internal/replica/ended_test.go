package replica

import (
	"testing"

	"github.com/conclave-project/conclave/zk"
)

func TestEndedSessionsAreForgottenByTheirAge(t *testing.T) {
	var e endedSessions
	e.note(1, 10)
	e.note(2, 20)
	e.note(1, 30)
	e.forget(25)
	if !e.has(1) || e.has(2) {
		t.Errorf("1 is remembered: %v, 2: %v", e.has(1), e.has(2))
	}
	if e.forget(31); e.has(1) || e.order.size() != 0 {
		t.Errorf("1 is remembered, or %d places are", e.order.size())
	}
}

func TestEndedSessionsAreBounded(t *testing.T) {
	var e endedSessions
	for id := range zk.SessionID(endedMax + 10) {
		e.note(id, 1)
	}
	if len(e.ms) != endedMax || e.order.size() != endedMax || e.has(9) || !e.has(10) {
		t.Errorf("%d are remembered in %d places", len(e.ms), e.order.size())
	}
}
