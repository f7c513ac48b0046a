package claims

import "github.com/conclave-project/conclave/clock"

// onTold goes on waiting by what the watch has brought, or what the claim itself has
// written last as the successor, without a Read, if that says that the claim has
// nothing to do yet. Whatever a claim writes rests on a Read, so that a watch which is
// late, or has lost something, changes nothing but when the claim looks (record-R9).
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
			c.joinAt = at // the Read that comes first takes no other turn
		}
	}
	if move != stay {
		return c.ask(now, Want{Kind: Read})
	}
	return c.stay(now, again)
}

// Tell notes what a watch has brought, as an answer whose question is older than all
// others, and returns false where the record is older than what was seen before: then
// it shows nothing.
func (b *Memory) Tell(now clock.Instant, record Record, version string) bool {
	if b.seen.outdates(record) {
		return false
	}
	b.See(0, now, record, version)
	return true
}

// outdates reports whether a record is certainly older than what was seen, or was
// taken back. Within one token a holder's heartbeat grows, and its release adds one.
func (s *Sight) outdates(record Record) bool {
	return record.Token < s.token || record.Token == s.Record.Token && record.Heartbeat < s.Record.Heartbeat
}
