package record_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
)

func (t *trial) fail(format string, args ...any) {
	t.wrongMu.Lock()
	defer t.wrongMu.Unlock()
	t.wrong = append(t.wrong, fmt.Sprintf("%v: ", time.Since(t.start))+fmt.Sprintf(format, args...))
}

// begin judges the beginning of a leadership: its token is higher than all before, and the last
// leader has been told to end, unless it is paused.
func (t *trial) begin(term *trialTerm) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leaderships++
	if term.token <= t.token && term.lead.Err() == nil {
		t.fail("token: %s leads with token %d after %d", term.c.id, term.token, t.token)
	}
	t.token = max(t.token, term.token)
	for _, other := range t.terms {
		if !other.ended && other.token < term.token && other.leads() && !other.c.wasPaused(time.Now()) {
			t.fail("deadline: %s leads with token %d, and %s, with token %d, does not know: told %v, %v remain", term.c.id,
				term.token, other.c.id, other.token, other.isTold(), other.lead.Remaining())
		}
	}
	t.terms = append(t.terms, term)
	term.c.mu.Lock()
	term.c.terms = append(term.c.terms, term)
	term.c.mu.Unlock()
}

// leads reports whether a function may assume, from what it has been told, that its leadership
// holds: until its context ends or, if that ended because the lease expired, until the
// deadline.
func (term *trialTerm) leads() bool {
	var lost *election.LostError
	switch {
	case !term.isTold():
		return true
	case errors.As(context.Cause(term.ctx), &lost) && lost.Reason == election.ReasonExpired:
		return term.lead.Remaining() > 0
	}
	return false
}

// isTold reports whether the context has ended, without looking at the clock.
func (term *trialTerm) isTold() bool {
	select {
	case <-term.ctx.Done():
		return true
	default:
		return false
	}
}

// act is called when a leader does something because its leadership holds.
func (t *trial) act(term *trialTerm) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if term.lead.Err() != nil && !term.leads() {
		return
	}
	if term.token < t.token {
		t.fail("beside: %s acts with token %d, when there is %d", term.c.id, term.token, t.token)
	}
	term.c.mu.Lock()
	sick := term.c.sick
	term.c.mu.Unlock()
	if term.c.checked && !term.isTold() && !sick.IsZero() && time.Since(sick) > trialSickMax && !term.c.wasPaused(sick) {
		t.fail("health: %s leads, and its check has failed for %v", term.c.id, time.Since(sick))
	}
}

// asks notes that somebody asks a leadership to resign.
func (t *trial) asks(term *trialTerm) {
	t.mu.Lock()
	defer t.mu.Unlock()
	term.asked = true
}

// end judges why and how a leadership has ended.
func (t *trial) end(term *trialTerm) {
	t.mu.Lock()
	defer t.mu.Unlock()
	term.ended = true
	if !term.isTold() {
		return
	}
	cause := context.Cause(term.ctx)
	if errors.Is(cause, election.ErrResigned) && !term.asked {
		t.fail("resign: %s gave token %d up, and nobody had asked", term.c.id, term.token)
	}
	if errors.Is(cause, election.ErrTransferred) && !t.anyWarm(term) {
		t.fail("transfer: %s gave token %d up, and nobody was ready", term.c.id, term.token)
	}
	overdue := time.Since(term.told) - term.c.options.EndLimit - trialLease - 300*time.Millisecond
	term.c.mu.Lock()
	stuck := term.stuck
	term.c.mu.Unlock()
	if !term.told.IsZero() && overdue > 0 && !stuck && !term.c.wasPaused(term.from) {
		t.fail("stuck: %s was not told that the function of token %d ran %v after it was told to end", term.c.id, term.token,
			time.Since(term.told))
	}
}

// anyWarm reports whether another candidate has ever warmed up: a place in the queue that has
// announced it may outlive its claim for a lease.
func (t *trial) anyWarm(term *trialTerm) bool {
	for _, c := range t.candidates {
		c.mu.Lock()
		warm := c != term.c && c.warmed
		c.mu.Unlock()
		if warm {
			return true
		}
	}
	return false
}

// judgeWrite is called with every write that is applied, and with the time when it was sent.
func (c *trialCandidate) judgeWrite(before, after record.Record, sent time.Time) {
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	if before.Nonce == "" {
		return
	}
	var holder *trialTerm
	for _, term := range c.t.terms {
		if term.token == before.Token && term.c == c {
			holder = term
		}
	}
	switch {
	case holder == nil:
	case after.Nonce == "" && !holder.ended:
		c.t.fail("release: %s gave token %d back while its function was running", c.id, holder.token)
	case after.Nonce != before.Nonce || after.Heartbeat == before.Heartbeat || holder.told.IsZero() || holder.ended:
	default:
		limit := c.options.EndLimit + 100*time.Millisecond
		if late := sent.Sub(holder.told) - limit; late > 0 && !c.wasPaused(holder.told) {
			c.t.fail("renewal: %s renewed token %d %v after its function was told to end", c.id, holder.token,
				sent.Sub(holder.told))
		}
	}
}
