package claims

import (
	"fmt"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
)

// conflictsMax is how often a renewal tries again because others have written.
const conflictsMax = 5

// Renewal is one call of Renew: it replaces the last written record with one that has
// a new heartbeat, and reads only if the record was changed meanwhile.
type Renewal struct {
	memory *Memory
	own    *claim
	grant  election.Grant
	tries  int
	asked  Want
	sent   clock.Instant
}

// Renewal renews a grant. It returns nil if the claim was released.
func (b *Memory) Renewal(grant election.Grant) *Renewal {
	own := b.claims[grant.Claim.Nonce]
	if own == nil {
		return nil
	}
	return &Renewal{memory: b, own: own, grant: grant}
}

// Begin writes if the record is known, else it reads.
func (r *Renewal) Begin(now clock.Instant) Want {
	if !r.own.fresh {
		r.asked, r.sent = Want{Kind: Read}, now
		return r.asked
	}
	// The successor in the record has been silent since the record was read: a
	// heartbeat would have changed the version.
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
	case Conflict, NotYet: // NotYet: the record was lost with its store, or had too many writes; read again
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

// lost returns the error that names the new leader.
func lost(record Record) error {
	if record.Nonce == "" {
		return fmt.Errorf("%w: the record has no holder", election.ErrLost)
	}
	return fmt.Errorf("%w: %q leads with token %d", election.ErrLost, record.Holder, record.Token)
}

// Release is one call of Release: it removes the claim from the record, wherever it
// is there, and makes sure that no write of the claim can still take effect
// (record-R5).
type Release struct {
	Change
	known bool // to the memory
}

// Release ends a claim.
func (b *Memory) Release(grant election.Grant) *Release {
	own, known := b.claims[grant.Claim.Nonce]
	if !known { // not a claim of this process, or already released
		own = &claim{}
	}
	own.over = true
	return &Release{Change{memory: b, own: own, editor: leaving{own, grant.Claim.Nonce, grant.Ended}}, known}
}

// Begin reads the record, unless the claim has never written.
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

// finish forgets a released claim. It keeps a claim that could not be released: the
// caller may try again; otherwise the claim is forgotten when a later read shows that
// it is gone (Memory.sweep).
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
