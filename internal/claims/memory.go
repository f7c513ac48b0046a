package claims

import (
	"slices"

	"github.com/conclave-project/conclave/clock"
)

// Memory is what one process knows about one election: what it has seen of the
// record, and its claims from Acquire to the end of Release.
type Memory struct {
	seen   Sight
	claims map[string]*claim // by nonce
	// stale are the nonces of claims whose release has failed.
	stale []string
}

// NewMemory returns the Memory of a process that has seen nothing.
func NewMemory() *Memory { return &Memory{claims: make(map[string]*claim)} }

// claim is what is known about the writes of one claim.
type claim struct {
	// over: released, no longer a candidate.
	over bool
	// wrote: a write of this claim was sent, whether or not it took effect.
	wrote bool
	// heartbeat is the greatest heartbeat that this claim has written as the holder.
	heartbeat uint64
	// sent is when the last write was sent.
	sent clock.Instant
	// pending are the versions expected by writes without an answer yet. Any
	// answer to a write shows that the version it expected is gone for good;
	// then no other write that expects this version can take effect either.
	pending map[string]bool
	// record and its version as this claim last wrote it; valid only if fresh.
	record  Record
	version string
	fresh   bool
}

// See records the answer, which arrived at now, to a Read sent at asked, and
// returns the updated knowledge.
func (b *Memory) See(asked, now clock.Instant, record Record, version string) Sight {
	b.seen.see(asked, now, record, version)
	b.sweep(asked, record, version)
	return b.seen
}

// Last returns the version that a claim last wrote, and false if the record may
// have changed since.
func (b *Memory) Last(nonce string) (string, bool) {
	c := b.claims[nonce]
	return c.last()
}

func (c *claim) last() (string, bool) {
	if c == nil || !c.fresh {
		return "", false
	}
	return c.version, true
}

// Claims returns how many claims are known, and how many of them could not be released.
func (b *Memory) Claims() (known, stale int) { return len(b.claims), len(b.stale) }

// Over reports whether the election is over as far as this process knows: this process
// has no claim, and nobody holds the election, is next, or can still hold it. Then this
// Memory can be replaced by a new one.
func (b *Memory) Over(now clock.Instant) bool {
	return len(b.claims) == 0 && now >= b.seen.VacantAt() && now >= b.seen.NextGoneAt()
}

// sweep forgets the claims whose release has failed, once the record shows that
// they are gone and that no write of theirs can still arrive.
func (b *Memory) sweep(asked clock.Instant, record Record, version string) {
	if len(b.stale) == 0 {
		return
	}
	b.stale = slices.DeleteFunc(b.stale, func(nonce string) bool {
		c := b.claims[nonce]
		if c != nil && !c.left(nonce, asked, record, version) {
			return false
		}
		delete(b.claims, nonce)
		return true
	})
}

// left reports whether a Read sent at asked shows that a claim that is over has left
// the record for good. The answer to a Read sent before the claim's last write may be
// older than the version which that write expects, so it shows nothing.
func (c *claim) left(nonce string, asked clock.Instant, record Record, version string) bool {
	there := record.Nonce == nonce || record.Next != nil && record.Next.Nonce == nonce
	return c.over && asked > c.sent && !there && !c.pending[version]
}

// write records a write that is sent now and may or may not take effect.
func (c *claim) write(now clock.Instant, record Record, version string) Want {
	if c.pending == nil {
		c.pending = make(map[string]bool)
	}
	c.wrote, c.sent = true, now
	c.pending[version] = true
	return Want{Kind: Write, Record: record, Version: version}
}

// written records the answer to a write.
func (c *claim) written(w Want, a Answer) {
	c.fresh = false
	switch a.Kind {
	case Written:
		c.record, c.version, c.fresh = w.Record, a.Version, true
		delete(c.pending, w.Version)
	case Conflict:
		delete(c.pending, w.Version)
	}
}

// nextHeartbeat returns the heartbeat for a write of the holder, who has seen the given one.
// It is greater than all earlier heartbeats of this claim, including those in writes that the
// store has lost since, because others may have seen them (record-R2).
func (c *claim) nextHeartbeat(seen uint64) uint64 {
	c.heartbeat = max(c.heartbeat, seen) + 1
	return c.heartbeat
}
