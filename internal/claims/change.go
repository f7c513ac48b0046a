package claims

import (
	"slices"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
)

// Editor returns the record to write, or false if nothing is to be written.
type Editor interface {
	Edit(now clock.Instant, wall time.Time, seen Sight) (Record, bool, error)
}

// Change reads the record, asks an Editor what to write, and writes it, and
// repeats this until it succeeds. Want.Version is then the version that the
// Editor saw last.
type Change struct {
	memory *Memory
	own    *claim
	editor Editor
	asked  Want
	sent   clock.Instant
}

// Change changes the record on behalf of a claim; "" is no claim.
func (b *Memory) Change(nonce string, editor Editor) *Change {
	own := b.claims[nonce]
	if own == nil {
		own = &claim{}
	}
	return &Change{memory: b, own: own, editor: editor}
}

// Begin looks at the record.
func (c *Change) Begin(now clock.Instant) Want {
	c.asked, c.sent = Want{Kind: Read}, now
	return c.asked
}

// Answer goes on.
func (c *Change) Answer(now clock.Instant, a Answer) Want {
	version := c.asked.Version
	if c.asked.Kind == Write {
		c.own.written(c.asked, a)
	}
	switch a.Kind {
	case Shown:
		seen := c.memory.See(c.sent, now, a.Record, a.Version)
		record, needed, err := c.editor.Edit(now, a.Wall, seen)
		if err != nil || !needed {
			return Want{Version: seen.Version, Err: err}
		}
		c.asked = c.own.write(now, record, seen.Version)
		return c.asked
	case Written:
		return Want{Version: version}
	case Conflict:
		return c.Begin(now)
	}
	return Want{Version: version, Err: ErrUnanswered}
}

// keep records a claim that could not be released.
func (c *Change) keep(nonce string) {
	if c.memory.claims[nonce] != nil && !slices.Contains(c.memory.stale, nonce) {
		c.memory.stale = append(c.memory.stale, nonce)
	}
}

// leaving is the Editor that removes a claim from a record.
type leaving struct {
	own   *claim
	nonce string
	ended election.Reason
}

// Edit implements Editor.
func (l leaving) Edit(_ clock.Instant, wall time.Time, seen Sight) (Record, bool, error) {
	record, changed := seen.Record, false
	if record.Next != nil && record.Next.Nonce == l.nonce {
		record, changed = record.with(nil), true
	}
	if record.Nonce == l.nonce {
		record, changed = record.released(wall, l.ended), true
	}
	if !changed && l.own.pending[seen.Version] {
		record.Touch++
		changed = true
	}
	return record, changed, nil
}
