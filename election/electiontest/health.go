package electiontest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
)

var errSick = errors.New("sick on purpose")

// testHealth makes a leader unhealthy: it steps down, another candidate can
// lead, and the first one does not campaign until it is healthy.
func testHealth(t *testing.T, s Suite) {
	h, url := s.newHistory(), s.URL(t)
	var sick atomic.Bool
	checks := make(chan struct{}, toldMax)
	a := s.calm().run(t, h, s.Open(t, url), "health", election.Options{ID: "a",
		HealthEvery: 20 * time.Millisecond,
		Health: func(context.Context) error {
			checks <- struct{}{}
			if sick.Load() {
				return errSick
			}
			return nil
		}})
	await(t, s, "a is elected", a.events.elected)
	sick.Store(true)
	if reason := await(t, s, "a gives up", a.events.lost); reason != election.ReasonUnhealthy {
		t.Errorf("a gave up for the reason %v", reason)
	}
	b := s.calm().run(t, h, s.Open(t, url), "health", election.Options{Once: true, ID: "b"})
	await(t, s, "b is elected", b.events.elected)
	b.end(t, s)
	s.awaitNobody(t, url, "health")
	for range 10 {
		await(t, s, "a is checked", checks)
	}
	if len(a.events.elected) != 0 {
		t.Error("a was elected though it is sick")
	}
	sick.Store(false)
	await(t, s, "a is elected again", a.events.elected)
	a.end(t, s)
	s.verify(t, h, 3)
}
