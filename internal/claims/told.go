package claims

import "github.com/conclave-project/conclave/clock"

// onTold continues to wait without a Read if the record from the watch, or the one
// that the claim itself last wrote as the successor, shows that the claim has nothing
// to do yet. A claim writes only after a Read, so a watch that is late or loses
// something affects only when the claim reads (record-R9).
func (c *Candidate) onTold(now clock.Instant, a Answer) Want {
	next := a.Record.Next
	nominated := next != nil && next.Nonce == c.claim.Nonce && next.State == StateNominated
	if a.Record.Nonce == c.claim.Nonce || nominated || !c.memory.Tell(now, a.Record, a.Version) {
		return c.ask(now, Want{Kind: Read})
	}
	move, again := c.memory.seen.decide(c.claim, c.warmth, c.touchedAt, now)
	if move == join {
		at := c.joinAt
		if move, again = c.takeTurns(now); move == join {
			c.joinAt = at // the Read that comes first keeps this turn
		}
	}
	if move != stay {
		return c.ask(now, Want{Kind: Read})
	}
	return c.stay(now, again)
}

// Tell records what a watch delivered, like an answer to a Read older than all
// others. It returns false if the record is older than what was seen before, so that
// it shows nothing.
func (b *Memory) Tell(now clock.Instant, record Record, version string) bool {
	if b.seen.outdates(record) {
		return false
	}
	b.See(0, now, record, version)
	return true
}

// outdates reports whether a record is certainly older than what was seen, or comes
// from a store that went back. Under one token a holder's heartbeat only grows, and
// its release adds one.
func (s *Sight) outdates(record Record) bool {
	return record.Token < s.token || record.Token == s.Record.Token && record.Heartbeat < s.Record.Heartbeat
}
