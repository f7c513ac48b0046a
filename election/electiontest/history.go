package electiontest

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

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

// sorted returns the beliefs in the order in which they began.
func (h *history) sorted() []belief {
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.SortFunc(h.beliefs, func(a, b belief) int { return cmp.Compare(a.from, b.from) })
	return slices.Clone(h.beliefs)
}

// verdict is what a history shows.
type verdict struct {
	leaderships int
	overlapMax  time.Duration
	tokensBack  int
	wrong       []string
}

// judge finds what is wrong: two that led at once, a token that did not grow
// from one leadership to the next.
func (h *history) judge() verdict {
	beliefs := h.sorted()
	v := verdict{leaderships: len(beliefs)}
	longest := belief{}
	for i, after := range beliefs {
		if i == 0 {
			longest = after
			continue
		}
		before := beliefs[i-1]
		if after.token <= before.token {
			v.tokensBack++
			v.wrong = append(v.wrong, fmt.Sprintf("%s was elected with token %d after %s with token %d",
				after.who, after.token, before.who, before.token))
		}
		if overlap := min(longest.to, after.to).Sub(after.from); overlap > 0 {
			v.overlapMax = max(v.overlapMax, overlap)
			v.wrong = append(v.wrong, fmt.Sprintf("%s (token %d) led beside %s (token %d) for %v",
				after.who, after.token, longest.who, longest.token, overlap))
		}
		if after.to > longest.to {
			longest = after
		}
	}
	return v
}

// gaps returns the times between leaderships during which nobody led.
func (h *history) gaps() []time.Duration {
	var gaps []time.Duration
	beliefs := h.sorted()
	for i := 1; i < len(beliefs); i++ {
		gaps = append(gaps, beliefs[i].from.Sub(beliefs[i-1].to))
	}
	return gaps
}
