package peers

import (
	"cmp"
	"slices"
)

// An election that is over is kept by name for a while, with its history. There may be any
// number of elections over time, for instance one for each job. So of the idle elections a
// member keeps only the most recently used ones. For all others it keeps one term, the
// floor, which is not below any of theirs. An election whose name comes back begins after
// the floor (raft-T7), so its terms are above any in which this member has voted
// (peers-P8).

// idleMax is how many idle elections are kept by name.
const idleMax = 1024

// use records that the election is being used.
func (c *contest) use() { c.usedMs = c.b.nowMs() }

// idle reports whether nobody, here or elsewhere, uses the election as far as this member
// knows, and nothing lasts that this member has promised or that its vote may have started:
// two leases after it came to its term, a leader of an earlier term has ended (raft-T7).
func (c *contest) idle(nowMs int64) bool {
	s, b := c.machine.Status(), c.b
	return s.Leader == "" && nowMs >= s.PromisedMs && (!c.stored || nowMs >= c.termMs+2*b.formerMs) && c.alarm < 0 && !c.campaigns &&
		c.holder == nil && c.looking == 0 && !c.touched && !c.unsaved() && len(c.back) == 0 && len(c.candidates()) == 0
}

// sweep forgets surplus idle elections. It runs only after so many new elections that the
// cost for each of them is small.
func (b *Backend) sweep() {
	nowMs := b.nowMs()
	full := len(b.contests) >= electionsMax && nowMs >= b.sweptMs+b.leaseMs
	if len(b.contests) < b.sweepAt && !full {
		return
	}
	var idle []*contest
	for _, c := range b.contests {
		if c.idle(nowMs) {
			idle = append(idle, c)
		}
	}
	slices.SortFunc(idle, func(a, b *contest) int {
		return cmp.Or(cmp.Compare(a.usedMs, b.usedMs), cmp.Compare(a.name, b.name))
	})
	for _, c := range idle[:max(0, len(idle)-b.idleMax)] {
		c.collapse()
	}
	b.sweptMs, b.sweepAt = nowMs, len(b.contests)+b.idleMax
	for _, l := range b.links {
		l.renumber(2 * b.sweepAt)
	}
}

// collapse forgets the election except for its term. One record contains both the new floor
// and the removal of the name, so a crash undoes both or neither.
func (c *contest) collapse() {
	if term := c.machine.Status().Term; c.stored {
		c.b.alter(func(head *state) { head.Floor = max(head.Floor, term) })
		change, _ := c.b.disk.next()
		change.Elections[c.name] = nil
	}
	delete(c.b.contests, c.name)
}
