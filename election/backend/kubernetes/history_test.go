//go:build conformance

package kubernetes

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
)

// belief is the time during which somebody believed to lead, by the clock of
// this machine. Client-go has no token: zero.
type belief struct {
	who      string
	token    election.Token
	from, to election.Instant
}

// history collects beliefs.
type history struct {
	mu      sync.Mutex
	beliefs []belief
}

func (h *history) add(b belief) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.beliefs = append(h.beliefs, b)
}

// judge fails the test when two have led at once, or a token has not grown,
// and returns the beliefs in order.
func (h *history) judge(t testing.TB) []belief {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.SortFunc(h.beliefs, func(a, b belief) int { return cmp.Compare(a.from, b.from) })
	var until belief
	var token election.Token
	for _, b := range h.beliefs {
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
	return h.beliefs
}

// believe leads until it must end, and files for how long it was sure to lead.
func (h *history) believe(_ context.Context, lead election.Leadership) error {
	b := belief{who: lead.ID(), token: lead.Token(), from: election.Now()}
	for {
		now := election.Now()
		if lead.Err() != nil {
			h.add(b)
			return nil
		}
		b.to = now
		time.Sleep(time.Millisecond)
	}
}
