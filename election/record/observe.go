package record

import (
	"context"
	"iter"
	"slices"

	"github.com/conclave-project/conclave/election"
)

// observeLimit is how long an observer waits at most before it looks again.
const observeLimit = 10_000 // ms

// Observe yields what the record says, less what has run out as seen from
// here.
func (b *Backend) Observe(ctx context.Context, name string) iter.Seq2[election.View, error] {
	return func(yield func(election.View, error) bool) {
		c := &candidate{backend: b, claim: election.Claim{Election: name, Lease: milliseconds(observeLimit)}}
		last, first, broken := election.View{Election: name}, true, false
		for ctx.Err() == nil {
			seen, err := b.read(ctx, name, c.claim.Lease)
			if ctx.Err() != nil {
				return
			}
			view := last
			var again election.Instant
			if err == nil {
				c.version, c.failures = seen.version, 0
				view, again = seen.view(name, b.now())
			} else {
				err = b.fail("observe", name, err)
			}
			if (first || broken != (err != nil) || !equal(view, last)) && !yield(view, err) {
				return
			}
			last, first, broken = view, false, err != nil
			_ = c.wait(ctx, again, broken) // the next read tells
		}
	}
}

// view returns what people see at now, and when it changes by itself.
func (s *sight) view(name string, now election.Instant) (election.View, election.Instant) {
	view := election.View{Election: name, Token: s.record.Token}
	again := now.Add(milliseconds(observeLimit))
	if at := s.vacantAt(); now < at && s.record.Nonce != "" {
		view.Leader = s.record.Holder
		if h := s.record.History; len(h) > 0 {
			view.Since = h[len(h)-1].Since
		}
		again = min(again, at)
	}
	if at := s.nextGoneAt(); now < at {
		view.Candidates = []string{s.record.Next.ID}
		again = min(again, at)
	}
	return view, again
}

func equal(a, b election.View) bool {
	return a.Leader == b.Leader && a.Token == b.Token && a.Since.Equal(b.Since) &&
		slices.Equal(a.Candidates, b.Candidates)
}
