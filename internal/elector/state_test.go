package elector

import "testing"

// TestStateIsWhatPeopleSee checks the state of a candidate at each stage.
func TestStateIsWhatPeopleSee(t *testing.T) {
	config := Config{GraceMs: 2000, EndLimitMs: 3000, DriftPercent: 5, RetryMs: 200, RetryMaxMs: 2000, ReleaseMs: 3000}
	checked := config
	checked.HealthFailures = 1
	type step struct {
		nowMs int64
		event Event
	}
	elected := []step{{0, Start{}}, {0, Acquired{Attempt: 1, Token: 1, LeaseMs: 10_000}}}
	for _, c := range []struct {
		want   string
		config Config
		steps  []step
	}{
		{"stopped", config, nil},
		{"waiting", config, elected[:1]},
		{"waiting", config, append(elected[:1:1], step{0, AcquireFailed{Attempt: 1}})},
		{"unhealthy", checked, elected[:1]},
		{"waiting", checked, append(elected[:1:1], step{0, Health{Passed: true}})},
		{"leading", config, elected},
		{"ending", config, append(elected[:2:2], step{100, Resign{Attempt: 1}})},
		{"stuck", config, append(elected[:2:2], step{100, Resign{Attempt: 1}}, step{3100, Tick{}})},
		{"lost", config, append(elected[:2:2], step{100, LossSeen{Attempt: 1}})},
		{"stuck", config, append(elected[:2:2], step{100, LossSeen{Attempt: 1}}, step{9500, Tick{}})},
		{"waiting", config, append(elected[:2:2], step{100, LossSeen{Attempt: 1}}, step{9500, Tick{}}, step{9600, FunctionEnded{Attempt: 1}})},
		{"waiting", config, append(elected[:2:2], step{100, FunctionEnded{Attempt: 1}})},
		{"stopped", config, append(elected[:2:2], step{100, FunctionEnded{Attempt: 1}}, step{110, Released{Attempt: 1}})},
	} {
		m := New(c.config)
		for _, s := range c.steps {
			m.Step(s.nowMs, s.event)
		}
		if got := m.State().String(); got != c.want {
			t.Errorf("after %+v the candidate is %s, not %s", c.steps, got, c.want)
		}
	}
	if got := State(len(stateNames)).String(); got != "unknown" {
		t.Errorf("a state that there is not is %q", got)
	}
}
