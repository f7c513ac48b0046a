package electiontest

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
)

// span is the time during which a candidate considered itself the leader. The clock of the machine
// makes the spans of several processes comparable.
type span struct {
	who      string
	token    election.Token
	from, to clock.Instant
}

// history collects spans and judges them.
type history struct {
	clock clock.Clock // the clock of the leaders in this process

	mu    sync.Mutex
	spans []span
}

func (s Suite) newHistory() *history { return &history{clock: s.clock} }

func (h *history) add(b span) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.spans = append(h.spans, b)
}

func (h *history) len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.spans)
}

// sorted returns the spans in the order in which they began or, if they began at once, ended: in a
// bubble no time need pass.
func (h *history) sorted() []span {
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.SortStableFunc(h.spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	return slices.Clone(h.spans)
}

// verdict is what a history shows.
type verdict struct {
	leaderships int
	overlapMax  time.Duration
	tokensBack  int
	wrong       []string
}

// judge finds what is wrong: two candidates that led at once, or a token that did not grow from
// one leadership to the next.
func (h *history) judge() verdict {
	spans := h.sorted()
	v := verdict{leaderships: len(spans)}
	longest := span{}
	for i, after := range spans {
		if i == 0 {
			longest = after
			continue
		}
		before := spans[i-1]
		if after.token <= before.token {
			v.tokensBack++
			v.wrong = append(v.wrong, fmt.Sprintf("%s was elected with token %d after %s with token %d",
				after.who, after.token, before.who, before.token))
		}
		if after.from < longest.to {
			overlap := min(longest.to, after.to).Sub(after.from)
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
	spans := h.sorted()
	for i := 1; i < len(spans); i++ {
		gaps = append(gaps, spans[i].from.Sub(spans[i-1].to))
	}
	return gaps
}
