package claims

import (
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
)

// The pause after the first failed request of a waiter, and the limit up to
// which it doubles. Many waiters must not overload a store that is in trouble.
const (
	retryPause    = 100 * time.Millisecond
	retryPauseMax = 5 * time.Second
)

// Candidate is one call of Acquire: it waits until the election is vacant and its
// claim is first in the queue.
type Candidate struct {
	memory *Memory
	claim  election.Claim
	own    *claim
	seed   uint64

	asked     Want          // of the store
	sent      clock.Instant // when
	move      move          // the move that is being written
	answered  clock.Instant // when a turn last ended well
	failures  int           // in a row
	touchedAt clock.Instant // when this candidate's heartbeat was last written
	warmth    warmth

	passed bool          // this candidate has waited behind the successor
	joinAt clock.Instant // until then it leaves the place to others
}

// Candidate begins a claim. Candidates with different seeds retry at different
// times; with seed 0 there is no jitter.
func (b *Memory) Candidate(c election.Claim, seed uint64) *Candidate {
	own := &claim{}
	b.claims[c.Nonce] = own
	return &Candidate{memory: b, claim: c, own: own, seed: seed}
}

// Begin reads the record.
func (c *Candidate) Begin(now clock.Instant) Want {
	c.answered = now
	return c.ask(now, Want{Kind: Read})
}

// Warmed reports that the warm-up has ended. A candidate that is waiting reads the record again.
func (c *Candidate) Warmed(ready bool) {
	c.warmth = failed
	if ready {
		c.warmth = warm
	}
}

func (c *Candidate) ask(now clock.Instant, w Want) Want {
	c.asked, c.sent = w, now
	return w
}

// Answer takes the store's answer and makes the next move of the claim.
func (c *Candidate) Answer(now clock.Instant, a Answer) Want {
	asked := c.asked
	w := c.answer(now, a)
	if w.Kind == Done && w.Err == nil {
		c.checkGrant(a, asked)
	}
	return w
}

func (c *Candidate) answer(now clock.Instant, a Answer) Want {
	asked := c.asked
	if asked.Kind == Write {
		c.own.written(asked, a)
	}
	switch a.Kind {
	case Unanswered:
		return c.fail(now)
	case Woken:
		return c.ask(now, Want{Kind: Read})
	case Shown:
		return c.look(now, a)
	case Told:
		return c.onTold(now, a)
	}
	c.answered, c.failures = now, 0
	switch {
	case a.Kind == NotYet:
		return c.wait(now, asked.Version, c.sent.Add(a.After))
	case a.Kind == Written && c.move == take:
		return c.ask(now, Want{Grant: asked.Record.grant(election.Grant{Claim: c.claim, Sent: c.sent})})
	case a.Kind == Written && c.move != undo:
		c.touchedAt = c.sent
		if c.move == notReady {
			c.warmth = notAsked // the next nomination asks for a new warm-up
		}
		return c.onTold(now, Answer{Record: asked.Record, Version: a.Version})
	}
	return c.ask(now, Want{Kind: Read})
}

// fail asks again later. It gives up if the store has not answered for the time
// of a lease.
func (c *Candidate) fail(now clock.Instant) Want {
	if c.asked.Kind != Wait && now.Sub(c.answered) > c.claim.Lease {
		return c.ask(now, Want{Err: ErrUnanswered})
	}
	pause := RetryPause(c.failures, c.claim.Lease)
	c.failures++
	return c.ask(now, Want{Kind: Pause, Until: now.Add(pause/2 + c.chance(pause/2))})
}

// RetryPause returns the longest pause after a number of failures in a row. It
// grows with each failure.
func RetryPause(failures int, lease time.Duration) time.Duration {
	pause := min(retryPause, lease/10) << min(failures, 10)
	return min(pause, retryPauseMax, max(lease/4, 1))
}

// chance returns a random duration up to the limit, by xorshift64.
func (c *Candidate) chance(limit time.Duration) time.Duration {
	c.seed ^= c.seed << 13
	c.seed ^= c.seed >> 7
	c.seed ^= c.seed << 17
	return time.Duration(c.seed % uint64(limit+1))
}

// wait reads again when the record has changed, or at a given time.
func (c *Candidate) wait(now clock.Instant, version string, until clock.Instant) Want {
	if until <= now {
		return c.ask(now, Want{Kind: Read})
	}
	return c.ask(now, Want{Kind: Wait, Version: version, Until: min(until, now.Add(c.claim.Lease))})
}

// look decides from the record that was read.
func (c *Candidate) look(now clock.Instant, a Answer) Want {
	seen := c.memory.See(c.sent, now, a.Record, a.Version)
	if seen.Record.Nonce == c.claim.Nonce {
		return c.write(now, undo, seen.Record.undone())
	}
	warms := c.onNomination()
	move, again := seen.decide(c.claim, c.warmth, c.touchedAt, now)
	if move == join {
		move, again = c.takeTurns(now)
	}
	w := c.make(now, move, again, a)
	w.Warm = warms
	return w
}

// make carries out a move.
func (c *Candidate) make(now clock.Instant, move move, again clock.Instant, a Answer) Want {
	record := c.memory.seen.Record
	switch next := record.Next; move {
	case take:
		record = record.taken(c.claim, c.memory.seen.known(a.Incarnation), a.Incarnation, a.Wall)
		record.Heartbeat = c.own.nextHeartbeat(record.Heartbeat)
	case join:
		record = record.with(joined(c.claim, next))
	case touch:
		record = record.with(next.in(next.State, c.claim))
	case ready:
		record = record.with(next.in(StateReady, c.claim))
	case notReady:
		record = record.with(next.in(StateNotReady, c.claim))
	default:
		return c.stay(now, again)
	}
	return c.write(now, move, record)
}

// stay waits until the record changes, or until again.
func (c *Candidate) stay(now, again clock.Instant) Want {
	if next := c.memory.seen.Record.Next; next != nil && next.Nonce != c.claim.Nonce {
		c.passed, c.joinAt = true, 0
	}
	c.answered, c.failures = now, 0
	return c.wait(now, c.memory.seen.Version, again)
}

// write replaces the record that was read, unless the claim was released
// meanwhile. The lease of a grant begins now (record-R2).
func (c *Candidate) write(now clock.Instant, move move, record Record) Want {
	if c.own.over {
		return c.ask(now, Want{Err: ErrReleased})
	}
	c.checkMove(now, move, record)
	c.move = move
	return c.ask(now, c.own.write(now, record, c.memory.seen.Version))
}

// takeTurns makes candidates that waited together try for the free place one
// after the other: the first that succeeds spares the others a write
// (record-R3).
func (c *Candidate) takeTurns(now clock.Instant) (move, clock.Instant) {
	free := now >= c.memory.seen.NextGoneAt()
	switch {
	case !free || !c.passed || c.memory.seen.Record.Wanted == c.claim.ID:
		return join, now
	case c.joinAt == 0:
		c.joinAt = now.Add(c.chance(c.claim.Lease / 8))
	}
	if now < c.joinAt {
		return stay, c.joinAt
	}
	c.joinAt = 0
	return join, now
}

// onNomination reports, once, whether the record asks this claim to warm up.
// The failure of a warm-up applies only to the nomination that asked for it,
// which ends when the record shows no nomination.
func (c *Candidate) onNomination() bool {
	next := c.memory.seen.Record.Next
	nominated := next != nil && next.Nonce == c.claim.Nonce && next.State == StateNominated
	if !nominated && c.warmth == failed {
		c.warmth = notAsked
	}
	asked := nominated && c.warmth == notAsked
	if asked {
		c.warmth = warming
	}
	return asked
}

// grant copies what the record says about its holder into a grant.
func (r Record) grant(g election.Grant) election.Grant {
	g.Token = r.Token
	g.Lease = milliseconds(r.LeaseMs)
	g.Request = r.Request
	g.Rival = ""
	if next := r.Next; next != nil && next.Priority > r.Priority {
		g.Rival = next.ID
	}
	return g
}
