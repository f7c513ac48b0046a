package storm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/conclave-project/conclave/election"
)

// span is one leadership.
type span struct {
	of, who  string
	token    election.Token
	from, to time.Time // to is zero while it lasts
}

// lead returns a function that leads for a while, or to the very last moment of its lease.
func (w *Storm) lead(c *Candidate, of string) func(context.Context, election.Leadership) error {
	return func(ctx context.Context, lead election.Leadership) error {
		s := w.begin(of, lead)
		defer w.over(s)
		enough := time.NewTimer(c.awhile(20 * w.Lease))
		defer enough.Stop()
		for ctx.Err() == nil {
			select {
			case <-enough.C:
				if of == Election || !w.Quiet.Load() { // else the group must not change
					return nil
				}
			case <-c.dead:
				return nil
			case <-ctx.Done():
			}
		}
		var lost *election.LostError
		if errors.As(context.Cause(ctx), &lost) && lost.Reason == election.ReasonTaken && lead.Remaining() > 0 {
			w.Breach("the store took from %s what was its own for another %v: %v", s.who, lead.Remaining(), lost)
		}
		if lost == nil || lost.Reason != election.ReasonExpired {
			return nil
		}
		w.mu.Lock()
		w.expired++
		w.mu.Unlock()
		for lead.Remaining() > 0 {
			select {
			case <-time.After(lead.Remaining()/2 + time.Microsecond):
			case <-c.dead:
				return nil
			}
		}
		return nil
	}
}

func (w *Storm) begin(of string, lead election.Leadership) *span {
	s := &span{of: of, who: lead.ID(), token: lead.Token(), from: time.Now()}
	w.mu.Lock()
	var beside *span
	for _, other := range w.spans {
		if other.of == of && other.to.IsZero() {
			beside = other
		}
	}
	w.spans = append(w.spans, s)
	w.mu.Unlock()
	w.Say("%s leads %s with token %d", s.who, of, s.token)
	if beside != nil {
		w.Breach("%s (token %d) leads %s beside %s (token %d)", s.who, s.token, of, beside.who, beside.token)
	}
	return s
}

func (w *Storm) over(s *span) {
	w.mu.Lock()
	s.to = time.Now()
	w.mu.Unlock()
	w.Say("%s leads %s no more", s.who, s.of)
}

// Judge checks all leaderships after their end.
func (w *Storm) Judge() {
	slices.SortStableFunc(w.spans, func(a, b *span) int { return cmp.Or(cmp.Compare(a.of, b.of), a.from.Compare(b.from)) })
	for i, after := range w.spans {
		if i > 0 && after.of == w.spans[i-1].of && after.token <= w.spans[i-1].token {
			w.Breach("%s has token %d of %s after %d of %s", after.who, after.token, after.of, w.spans[i-1].token, w.spans[i-1].who)
		}
	}
	if len(w.spans) == 0 {
		w.Breach("nobody has led")
	}
	w.judgeHistory()
}

// judgeHistory compares the history with the actual leaderships (storm-S6).
func (w *Storm) judgeHistory() {
	operator, ok := w.Observer.(election.Operator)
	if !ok {
		return
	}
	history, err := operator.History(context.Background(), Election)
	if err != nil {
		w.Breach("the history: %v", err)
	}
	var last election.Token
	for _, tenure := range history {
		if tenure.Token <= last {
			w.Breach("the history has token %d after %d", tenure.Token, last)
		}
		last = tenure.Token
		for _, s := range w.spans {
			if s.of == Election && s.token == tenure.Token && s.who != tenure.Leader {
				w.Breach("the history says that %s led with token %d, which %s did", tenure.Leader, tenure.Token, s.who)
			}
		}
	}
}

// gap returns the longest time without a leader after an instant at which somebody led.
func (w *Storm) gap(since time.Time) (longest time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var last *span
	for _, s := range w.spans {
		if s.of != Election {
			continue
		}
		if last != nil && last.to.After(since) {
			longest = max(longest, s.from.Sub(last.to))
		}
		last = s
	}
	if last != nil && !last.to.IsZero() {
		longest = max(longest, time.Since(last.to))
	}
	return longest
}

// isWell reports whether somebody leads, and the partitions are shared evenly.
func (w *Storm) isWell() bool {
	leads, owned := w.present()
	if leads == nil || !w.isShown(leads) || !w.Grouped {
		return leads != nil && w.isShown(leads)
	}
	sum, least, most := 0, Partitions, 0
	for _, c := range w.Running {
		n := len(owned[c.Elector.ID()])
		sum, least, most = sum+n, min(least, n), max(most, n)
	}
	return sum == Partitions && most-least <= 1
}

// isShown reports whether the store shows the leadership.
func (w *Storm) isShown(leads *span) bool {
	if w.Observer == nil {
		return true
	}
	for view, err := range w.Observer.Observe(context.Background(), Election) {
		return err == nil && view.Leader == leads.who && view.Token == leads.token
	}
	return false
}

// present returns the current leadership, nil for none, and the partitions of each owner.
func (w *Storm) present() (leads *span, owned map[string][]string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	owned = make(map[string][]string)
	for _, s := range w.spans {
		switch {
		case !s.to.IsZero():
		case s.of == Election:
			leads = s
		default:
			owned[s.who] = append(owned[s.who], s.of)
		}
	}
	return leads, owned
}

// state describes who does what now.
func (w *Storm) state() string {
	leads, owned := w.present()
	text := "nobody leads"
	if leads != nil {
		text = fmt.Sprintf("%s leads with token %d, which the store shows: %v", leads.who, leads.token, w.isShown(leads))
	}
	for _, c := range w.Running {
		text += fmt.Sprintf(", %s owns %q", c.Elector.ID(), owned[c.Elector.ID()])
	}
	return text
}
