package electiontest

import (
	"fmt"
	"slices"
	"sync"

	"github.com/conclave-project/conclave/election"
)

// belief is the time during which somebody believed to lead. The clock of the
// machine makes those of several processes comparable.
type belief struct {
	who      string
	token    election.Token
	from, to election.Instant
}

// history collects beliefs and judges them.
type history struct {
	mu      sync.Mutex
	beliefs []belief
}

func (h *history) add(b belief) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.beliefs = append(h.beliefs, b)
}

func (h *history) len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.beliefs)
}

// judge returns what is wrong: two that led at once, a token that did not grow
// from one leadership to the next.
func (h *history) judge() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.SortFunc(h.beliefs, func(a, b belief) int { return int(a.from - b.from) })
	var wrong []string
	for i := 1; i < len(h.beliefs); i++ {
		before, after := h.beliefs[i-1], h.beliefs[i]
		if after.token <= before.token {
			wrong = append(wrong, fmt.Sprintf("%s was elected with token %d after %s with token %d",
				after.who, after.token, before.who, before.token))
		}
		if after.from < before.to {
			wrong = append(wrong, fmt.Sprintf("%s (token %d) led beside %s (token %d) for %v",
				after.who, after.token, before.who, before.token, before.to.Sub(after.from)))
		}
	}
	return wrong
}
