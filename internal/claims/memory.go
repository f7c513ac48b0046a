package claims

import (
	"slices"

	"github.com/conclave-project/conclave/clock"
)

// Memory is what one process knows of one election: what it has seen of the record,
// and the claims that it has made, from Acquire to the end of Release.
type Memory struct {
	seen   Sight
	claims map[string]*claim // by nonce
	// stale are the nonces of claims whose release has failed.
	stale []string
}

// NewMemory returns that of a process that has seen nothing.
func NewMemory() *Memory { return &Memory{claims: make(map[string]*claim)} }

// claim is what is known of one claim's writes.
type claim struct {
	// over: released, no longer a candidate.
	over bool
	// wrote: a write of this claim was sent, whatever became of it.
	wrote bool
	// heartbeat is the greatest that this claim has put into a write as the holder.
	heartbeat uint64
	// sent is when the last write was.
	sent clock.Instant
	// pending are the versions that writes expect whose answer has not come.
	// Any answer to a write tells that the version it expected is gone for
	// good, and so are all other writes that expect it.
	pending map[string]bool
	// record and its version as this claim wrote it last, known only if fresh.
	record  Record
	version string
	fresh   bool
}

// See notes what the answer has shown to a Read of the instant asked, which arrived
// at now, and returns what is known with it.
func (b *Memory) See(asked, now clock.Instant, record Record, version string) Sight {
	b.seen.see(asked, now, record, version)
	b.sweep(asked, record, version)
	return b.seen
}

// Last is the version that a claim has written last, and false if the record may
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

// Claims is how many claims are known, and how many of them could not be released.
func (b *Memory) Claims() (known, stale int) { return len(b.claims), len(b.stale) }

// Over reports whether the election is over as far as this process knows: it has no
// claim in it, and nobody holds it or is to hold it next, or can still do so. Then a new
// memory knows enough.
func (b *Memory) Over(now clock.Instant) bool {
	return len(b.claims) == 0 && now >= b.seen.VacantAt() && now >= b.seen.NextGoneAt()
}

// sweep forgets the claims whose release has failed, once the record shows that
// nothing of them is left and nothing can come.
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

// left reports whether a claim that is over has left the record for good, as shown
// to a Read of the instant asked. What was asked before the claim's last write may be
// older than the version which that expects.
func (c *claim) left(nonce string, asked clock.Instant, record Record, version string) bool {
	there := record.Nonce == nonce || record.Next != nil && record.Next.Nonce == nonce
	return c.over && asked > c.sent && !there && !c.pending[version]
}

// write notes a write that is sent now, of which nobody knows yet whether it takes
// effect.
func (c *claim) write(now clock.Instant, record Record, version string) Want {
	if c.pending == nil {
		c.pending = make(map[string]bool)
	}
	c.wrote, c.sent = true, now
	c.pending[version] = true
	return Want{Kind: Write, Record: record, Version: version}
}

// written notes what became of it.
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

// nextHeartbeat returns a heartbeat for a write of the holder, who has seen the given one. It
// is greater than all of this claim before, also those of writes that the store has
// forgotten since: others may have seen them (record-R2).
func (c *claim) nextHeartbeat(seen uint64) uint64 {
	c.heartbeat = max(c.heartbeat, seen) + 1
	return c.heartbeat
}
