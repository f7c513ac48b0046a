package peers

import (
	"cmp"
	"slices"
)

// An election that is over is kept by name for a while, with its history. Elections
// may come and go without end, one for each job: so of those that are idle a member
// keeps the ones that were in use last, and of all others one term, the floor, which
// is none of theirs less. An election whose name comes back begins after the floor
// (raft-T7): whatever this member has voted for in it is below (peers-P8).

// idleMax is how many idle elections are kept by name.
const idleMax = 1024

// use notes that somebody has to do with the election.
func (c *contest) use() { c.usedMs = c.b.nowMs() }

// idle reports whether nobody here or elsewhere has to do with the election as far as
// this member knows, and nothing lasts that it has promised, or that its vote may have
// begun: two leases after it came to its term, a leader of an earlier term has ended
// (raft-T7).
func (c *contest) idle(nowMs int64) bool {
	s, b := c.machine.Status(), c.b
	return s.Leader == "" && nowMs >= s.PromisedMs && (!c.stored || nowMs >= c.termMs+2*b.formerMs) && c.alarm < 0 && !c.campaigns &&
		c.holder == nil && c.looking == 0 && !c.touched && !c.unsaved() && len(c.back) == 0 && len(c.candidates()) == 0
}

// sweep forgets the idle elections that are too many, now and then: so many more have
// to come first that it costs each of them little.
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

// collapse forgets the election but for its term. A crash may take that back: the
// floor and that the name is forgotten are one record.
func (c *contest) collapse() {
	if term := c.machine.Status().Term; c.stored {
		c.b.alter(func(head *state) { head.Floor = max(head.Floor, term) })
		change, _ := c.b.disk.next()
		change.Elections[c.name] = nil
	}
	delete(c.b.contests, c.name)
}
