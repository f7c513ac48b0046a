package elector

import "testing"

// A store may give a shorter lease with a renewal. From then on the older, longer one proves
// nothing any more.
func TestShorterLeaseOfARenewalCounts(t *testing.T) {
	m := New(Config{LeaseMs: 40000, GraceMs: 2000, DriftPercent: 5, RetryMs: 200, RetryMaxMs: 2000, ReleaseMs: 3000})
	m.Step(0, Start{})
	m.Step(10, Acquired{Attempt: 1, Token: 1, SentMs: 0, LeaseMs: 30000})
	m.Step(7600, Tick{})
	m.Step(7610, Renewed{Attempt: 1, Renewal: 1, SentMs: 7600, LeaseMs: 7500})
	if want := deadline(7600, 7500, 5); m.deadlineMs > want {
		t.Errorf("leads until %d, the store keeps others out until %d", m.deadlineMs, want)
	}
}

// The answer to a renewal that was given up comes after the answer to the next one, which
// brought a shorter lease. The longer lease was promised before, and is not kept any more.
func TestLateAnswerDoesNotBringTheLongerLeaseBack(t *testing.T) {
	m := New(Config{LeaseMs: 40000, GraceMs: 2000, DriftPercent: 5, RetryMs: 200, RetryMaxMs: 2000, ReleaseMs: 3000})
	m.Step(0, Start{})
	m.Step(10, Acquired{Attempt: 1, Token: 1, SentMs: 0, LeaseMs: 40000})
	m.Step(10000, Tick{}) // renewal 1 is sent
	m.Step(20000, Tick{}) // and renewal 2, because there was no answer
	m.Step(20010, Renewed{Attempt: 1, Renewal: 2, SentMs: 20000, LeaseMs: 10000})
	m.Step(20020, Renewed{Attempt: 1, Renewal: 1, SentMs: 10000, LeaseMs: 40000})
	if want := deadline(20000, 10000, 5); m.deadlineMs != want {
		t.Errorf("leads until %d, the store keeps others out until %d", m.deadlineMs, want)
	}
}

// The function was told to end because it looked at the clock itself, although an answer that
// was sent before has moved the end. The leadership ends nevertheless, as expired.
func TestWhatTheClockHasEndedIsNotRenewed(t *testing.T) {
	m := New(Config{LeaseMs: 10000, GraceMs: 2000, RetryMs: 200, RetryMaxMs: 2000, ReleaseMs: 3000})
	m.Step(0, Start{})
	m.Step(10, Acquired{Attempt: 1, Token: 1, SentMs: 0, LeaseMs: 10000})
	m.Step(7900, Renewed{Attempt: 1, Renewal: 1, SentMs: 7800, LeaseMs: 10000})
	effects := m.Step(7901, EndSeen{Attempt: 1})
	if len(effects) == 0 || effects[0] != (End{1, Expired}) {
		t.Errorf("the effects are %v", effects)
	}
	if effects := m.Step(7902, EndSeen{Attempt: 1}); len(effects) != 0 {
		t.Errorf("told twice: %v", effects)
	}
}
