//go:build conformance

package kubernetes

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// span is a period in which a candidate considered itself the leader, by the clock
// of this machine. Client-go has no token: zero.
type span struct {
	who      string
	token    election.Token
	from, to clock.Instant
}

// history collects spans.
type history struct {
	mu    sync.Mutex
	spans []span
}

func (h *history) add(b span) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.spans = append(h.spans, b)
}

// judge fails the test if two have led at once or a token has not grown, and
// returns the spans in order.
func (h *history) judge(t testing.TB) []span {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.SortFunc(h.spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var until span
	var token election.Token
	for _, b := range h.spans {
		if b.from < until.to {
			t.Errorf("%s (token %d) led beside %s (token %d) for %v", b.who, b.token, until.who, until.token, until.to.Sub(b.from))
		}
		if b.token != 0 && b.token <= token {
			t.Errorf("%s has token %d after %d", b.who, b.token, token)
		}
		token = max(token, b.token)
		if b.to > until.to {
			until = b
		}
	}
	return h.spans
}

// serve leads until it must end, and records for how long it was sure to lead.
func (h *history) serve(_ context.Context, lead election.Leadership) error {
	b := span{who: lead.ID(), token: lead.Token(), from: clock.Now()}
	for {
		now := clock.Now()
		if lead.Err() != nil {
			h.add(b)
			return nil
		}
		b.to = now
		awaittest.RealTime(time.Millisecond, "it looks often, and keeps no processor busy")
	}
}
