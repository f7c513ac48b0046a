package peers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/election"
)

// Acquire waits until this member leads for the claim. Its error matches election.ErrNoSpace if
// so many candidates of this member wait in the election that there is no space for one more,
// until one of them has gone.
func (b *Backend) Acquire(ctx context.Context, c election.Claim) (election.Grant, error) {
	if err := checkClaim(c); err != nil {
		return election.Grant{}, election.Permanent(err)
	}
	life, end := context.WithCancel(b.life)
	defer end()
	one := &claim{Claim: c, granted: make(chan election.Grant, 1), lost: make(chan struct{}), news: make(chan struct{}, 1),
		life: life, bytes: waitingBytes(c)}
	var full error
	err := b.call(ctx, func() {
		if full = b.space(c.Election); full == nil {
			full = b.contest(c.Election).join(one)
		}
	})
	if err = errors.Join(err, full); err != nil {
		return election.Grant{}, fmt.Errorf("peers: acquire %q: %w", c.Election, err)
	}
	select {
	case grant := <-one.granted:
		return grant, nil
	case <-b.done:
		return election.Grant{}, fmt.Errorf("peers: acquire %q: %w", c.Election, b.err)
	case <-ctx.Done():
	}
	b.post(func() { b.contest(c.Election).withdraw(one) })
	return election.Grant{}, fmt.Errorf("peers: wait for %q: %w", c.Election, context.Cause(ctx))
}

// withdraw removes a claim whose Acquire has ended. If it was granted at the same moment,
// the grant is released, because nobody received it.
func (c *contest) withdraw(one *claim) { c.leave(one.Nonce, "stopped") }

// Renew waits until a quorum has answered a heartbeat that was sent after the one that proved the
// grant.
func (b *Backend) Renew(ctx context.Context, grant election.Grant) (election.Grant, error) {
	for {
		var now election.Grant
		var held bool
		var next <-chan struct{}
		err := b.call(ctx, func() {
			c := b.contest(grant.Claim.Election)
			if held = c.holder != nil && c.holder.Nonce == grant.Claim.Nonce; held {
				now = c.proof(c.holder)
				next = wait(&c.proven)
			}
		})
		switch {
		case err != nil:
			return grant, fmt.Errorf("peers: renew %q: %w", grant.Claim.Election, b.lostIf(err))
		case !held:
			return grant, fmt.Errorf("peers: renew %q: %w", grant.Claim.Election, election.ErrLost)
		case now.Sent > grant.Sent:
			return now, nil
		}
		select {
		case <-next:
		case <-grant.Lost:
		case <-ctx.Done():
			return grant, fmt.Errorf("peers: renew %q: no quorum has answered: %w", grant.Claim.Election,
				context.Cause(ctx))
		}
	}
}

// lostIf marks the error as a lost grant if the member has ended.
func (b *Backend) lostIf(err error) error {
	select {
	case <-b.done:
		return errors.Join(err, election.ErrLost)
	default:
		return err
	}
}

// Release ends a claim; if it leads, it hands over to the nominee or to the
// successor. It needs no other member for that.
func (b *Backend) Release(ctx context.Context, grant election.Grant) error {
	reason := grant.Ended.String()
	err := b.call(ctx, func() {
		if c := b.contests[grant.Claim.Election]; c != nil {
			c.leave(grant.Claim.Nonce, reason)
		}
	})
	select {
	case <-b.done:
		return nil // a member that has ended holds nothing
	default:
	}
	if err != nil {
		return fmt.Errorf("peers: release %q: %w", grant.Claim.Election, err)
	}
	return nil
}

// Nominate chooses who leads next, and waits until it is ready.
func (b *Backend) Nominate(ctx context.Context, grant election.Grant, id string) error {
	if err := b.nominate(ctx, grant.Claim, id); err != nil {
		return fmt.Errorf("peers: nominate %q in %q: %w", id, grant.Claim.Election, err)
	}
	return nil
}

func (b *Backend) nominate(ctx context.Context, holder election.Claim, id string) error {
	n := new(nominee)
	var refused error
	err := b.call(ctx, func() { refused = b.contest(holder.Election).nominate(holder.Nonce, id, n) })
	for err == nil && refused == nil {
		var ready bool
		var next <-chan struct{}
		err = b.call(ctx, func() {
			c := b.contest(holder.Election)
			ready, refused = c.nomination(holder.Nonce, n)
			next = wait(&c.changed)
		})
		if ready {
			return nil
		}
		if err == nil && refused == nil {
			select {
			case <-next:
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
		}
	}
	return errors.Join(err, refused)
}

// errHolder is returned to a caller that does not lead.
var errHolder = fmt.Errorf("the grant is not held any more: %w", election.ErrLost)

// nominate begins to warm up the first candidate with this id.
func (c *contest) nominate(holder, id string, n *nominee) error {
	if c.holder == nil || c.holder.Nonce != holder {
		return errHolder
	}
	if !c.b.algorithm.Exclusive {
		return fmt.Errorf("%s elects whom it will: it cannot hand over to a chosen one", c.b.algorithm.Name)
	}
	for _, one := range c.candidates() {
		if one.ID != id {
			continue
		}
		n.nonce = one.Nonce
		c.nominee = n
		if one.member == c.b.options.ID {
			c.warm(one.Nonce, func(failed string) { c.onWarm(one.Nonce, failed) })
		} else if l := c.b.links[one.member]; l != nil {
			l.note(c.name, note{Kind: noteWarm, Nonce: one.Nonce})
		}
		return nil
	}
	return election.ErrNoCandidate
}

// nomination reports the progress of a nomination.
func (c *contest) nomination(holder string, n *nominee) (ready bool, err error) {
	switch {
	case c.holder == nil || c.holder.Nonce != holder:
		return false, errHolder
	case c.nominee != n:
		return false, errors.New("another candidate was nominated since")
	case n.failed != "":
		return false, errors.New(n.failed)
	}
	return n.ready, nil
}

// warm lets a candidate of this member warm up, and calls report in the loop, with an empty
// text for success. A nomination during a warm-up waits for the same one.
func (c *contest) warm(nonce string, report func(failed string)) {
	for _, one := range c.queue {
		if one.Nonce != nonce {
			continue
		}
		if one.Warm == nil {
			report("")
			return
		}
		if one.warming = append(one.warming, report); len(one.warming) > 1 {
			return
		}
		go func() { // nothing waits for it: the function is the user's
			failed := ""
			if err := one.Warm(one.life); err != nil {
				failed = "the candidate could not warm up: " + shortened(err.Error())
			}
			c.b.post(func() {
				for _, report := range one.warming {
					report(failed)
				}
				one.warming = nil
			})
		}()
		return
	}
	report("the candidate waits no more")
}

func (c *contest) onWarm(nonce, failed string) {
	if n := c.nominee; n != nil && n.nonce == nonce && n.failed == "" {
		n.ready, n.failed = failed == "", failed
		c.touch()
	}
}

// checkNominee fails a nomination whose candidate no longer waits, here or at another
// member.
func (c *contest) checkNominee() {
	n := c.nominee
	if n != nil && !slices.ContainsFunc(c.candidates(), func(one candidate) bool { return one.Nonce == n.nonce }) {
		n.ready, n.failed = false, "the candidate waits no more"
	}
}

// onNote handles a note of another member.
func (c *contest) onNote(from algo.ID, n *note) {
	switch n.Kind {
	case noteDescribed:
		c.onMetadata(from, n)
	case noteFirst:
		c.first = n.Nonce
	case noteWarm:
		c.warm(n.Nonce, func(failed string) {
			if l := c.b.links[from]; l != nil {
				l.note(c.name, note{Kind: noteReady, Nonce: n.Nonce, Error: failed})
			}
		})
	case noteReady:
		c.onWarm(n.Nonce, n.Error)
	case noteAsk:
		refused := ""
		if n.Request != nil {
			refused = c.answer(*n.Request)
		}
		if l := c.b.links[from]; l != nil {
			l.note(c.name, note{Kind: noteAnswer, Serial: n.Serial, Error: refused})
		}
	case noteRecall:
		if l := c.b.links[from]; l != nil {
			l.note(c.name, note{Kind: noteAnswer, Serial: n.Serial, History: c.history})
		}
	case noteAnswer:
		c.learn(n.History)
		if answer := c.b.asked[n.Serial]; answer != nil {
			select {
			case answer <- n.Error:
			default: // more answers than questions
			}
		}
	}
}

// since converts a time of a member's wall clock, for people to read.
func since(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
