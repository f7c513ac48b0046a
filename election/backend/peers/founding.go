package peers

import (
	"fmt"
	"time"

	"github.com/conclave-project/conclave/algo"
)

// A member without memory, new or with a new directory in the place of one that was
// lost, cannot know which of the two it is. If all others let it in, none of them has
// met another of its id, and so it has voted for nobody: it takes part at once. If
// some are away it may be that one of them leads with its vote. Then it waits until
// what it may have done has led to something or to nothing, and votes in none of the
// terms that elections can have come to (P7).

// meet notes that a member has let this one in.
func (b *Backend) meet(id algo.ID) {
	b.met[id] = true
	if len(b.met) == len(b.options.Members)-1 && !b.head.Founded && b.lost == "" {
		b.takePart(0)
	}
}

// awaitFounding waits as long as a member must that has not met all others.
func (b *Backend) awaitFounding() {
	if b.head.Founded {
		return
	}
	b.workers.Go(func() {
		for {
			b.sleep(b.options.Lease / 4)
			over := true
			if err := b.call(b.life, func() { over = b.head.Founded || b.lost != "" || b.foundWithout() }); err != nil || over {
				return
			}
		}
	})
}

// foundWithout lets a member take part that has not met all others, once two leases
// are over and there are enough to elect somebody. It reports whether it does.
func (b *Backend) foundWithout() bool {
	if b.nowMs() < b.beganMs+2*b.leaseMs || len(b.links)+1 <= len(b.options.Members)/2 {
		return false
	}
	// More than one election a second since 1970 there has not been. A clock that was
	// set back costs no safety of the lease, and gives a token twice only where a
	// directory was lost too.
	b.takePart(min(b.head.After+uint64(max(0, time.Now().Unix())), algo.TermMax-1))
	return true
}

// takePart begins to vote, and to stand in all elections.
func (b *Backend) takePart(floor uint64) {
	b.alter(func(head *state) { head.Founded, head.Floor = true, max(b.head.Floor, floor) })
	for _, c := range b.contests {
		c.memory.Floor = b.head.Floor
		c.machine = c.begin()
		c.look()
	}
}

// founded is nil for a member that takes part, and else says what it waits for.
func (b *Backend) founded() error {
	switch {
	case b.head.Founded:
		return nil
	case b.lost != "":
		return fmt.Errorf("peers: %s says that this member %w", b.lost, errLostDirectory)
	}
	return fmt.Errorf("peers: this member is new and has met %d of the %d others; it takes part when it has met all, "+
		"or after two leases with a quorum: %v", len(b.met), len(b.options.Members)-1, b.broken)
}
