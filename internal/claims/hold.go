package claims

import (
	"fmt"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
)

// conflictsMax is how often a renewal tries again because others have written.
const conflictsMax = 5

// Renewal is one call of Renew: it writes a new heartbeat, over what was written last,
// and only reads when something else was there.
type Renewal struct {
	memory *Memory
	own    *claim
	grant  election.Grant
	tries  int
	asked  Want
	sent   clock.Instant
}

// Renewal renews a grant, nil if its claim was released.
func (b *Memory) Renewal(grant election.Grant) *Renewal {
	own := b.claims[grant.Claim.Nonce]
	if own == nil {
		return nil
	}
	return &Renewal{memory: b, own: own, grant: grant}
}

// Begin writes, if the record is known.
func (r *Renewal) Begin(now clock.Instant) Want {
	if !r.own.fresh {
		r.asked, r.sent = Want{Kind: Read}, now
		return r.asked
	}
	// A process that is the successor in it was silent since it was seen: a heartbeat
	// would have changed the version.
	seen := r.memory.seen
	seen.Record, seen.Version = r.own.record, r.own.version
	return r.write(now, seen)
}

// Answer goes on.
func (r *Renewal) Answer(now clock.Instant, a Answer) Want {
	if r.asked.Kind == Write {
		r.own.written(r.asked, a)
	}
	switch a.Kind {
	case Shown:
		seen := r.memory.See(r.sent, now, a.Record, a.Version)
		if seen.Record.Nonce != r.grant.Claim.Nonce {
			return Want{Grant: r.grant, Err: lost(seen.Record)}
		}
		return r.write(now, seen)
	case Written:
		r.grant.Sent = r.sent
		return Want{Grant: r.asked.Record.grant(r.grant)}
	case Conflict, NotYet: // NotYet is said of a record that has gone with its store, or had too many writes: look again
		if r.tries++; r.tries < conflictsMax {
			return r.Begin(now)
		}
	}
	return Want{Grant: r.grant, Err: ErrUnanswered}
}

func (r *Renewal) write(now clock.Instant, seen Sight) Want {
	record := seen.Record
	if now >= seen.NextGoneAt() {
		record.Next = nil
	}
	record.Heartbeat, record.Metadata = r.own.nextHeartbeat(record.Heartbeat), r.grant.Claim.Metadata
	r.sent = now
	r.asked = r.own.write(now, record, seen.Version)
	return r.asked
}

// lost says who leads instead.
func lost(record Record) error {
	if record.Nonce == "" {
		return fmt.Errorf("%w: the record has no holder", election.ErrLost)
	}
	return fmt.Errorf("%w: %q leads with token %d", election.ErrLost, record.Holder, record.Token)
}

// Release is one call of Release: it takes the claim out of the record, wherever it
// is, and makes sure that no write of it can take effect any more (record-R5).
type Release struct {
	Change
	known bool // to the memory
}

// Release ends a claim.
func (b *Memory) Release(grant election.Grant) *Release {
	own, known := b.claims[grant.Claim.Nonce]
	if !known { // not ours, or released before
		own = &claim{}
	}
	own.over = true
	return &Release{Change{memory: b, own: own, editor: leaving{own, grant.Claim.Nonce, grant.Ended}}, known}
}

// Begin looks at the record, unless the claim has never written.
func (r *Release) Begin(now clock.Instant) Want {
	if r.known && !r.own.wrote {
		return r.finish(Want{})
	}
	return r.Change.Begin(now)
}

// Answer goes on.
func (r *Release) Answer(now clock.Instant, a Answer) Want {
	return r.finish(r.Change.Answer(now, a))
}

// finish forgets a claim that has gone, and keeps one that could not be released:
// the caller may ask again, and if not, the next look at the record that shows it gone
// ends it (Memory.sweep).
func (r *Release) finish(w Want) Want {
	nonce := r.editor.(leaving).nonce
	switch {
	case w.Kind != Done:
	case w.Err == nil:
		r.own.checkReleased(w.Version)
		delete(r.memory.claims, nonce)
	default:
		r.keep(nonce)
	}
	return w
}

// Abandon says that nobody waits for the release any more.
func (r *Release) Abandon() { r.keep(r.editor.(leaving).nonce) }
