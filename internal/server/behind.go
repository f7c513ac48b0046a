package server

import (
	"sync"

	"github.com/conclave-project/conclave/internal/zab"
)

// behind records since when messages of other servers have waited to be handed to the loop
// because the disk or the loop is overloaded. Heartbeats of sessions may be among them, so
// these sessions must not end meanwhile. For the other servers the delay still counts as
// silence: a leader whose disk is stalled gives up its role.
type behind struct {
	mu     sync.Mutex
	waitMs map[zab.LinkID]int64 // since when the batch of a link has waited

	toldMs int64 // of the loop: the last result of oldest
}

// begin records that a batch of a link has arrived.
func (b *behind) begin(link zab.LinkID, nowMs int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waitMs == nil {
		b.waitMs = make(map[zab.LinkID]int64)
	}
	b.waitMs[link] = nowMs
}

// end records that the batch is in the inbox.
func (b *behind) end(link zab.LinkID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waitMs, link)
}

// oldest returns since when a batch has waited, 0 if none does. A caller that then takes the
// inbox finds there every batch that ended before.
func (b *behind) oldest() (sinceMs int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, ms := range b.waitMs {
		if sinceMs == 0 || ms < sinceMs {
			sinceMs = ms
		}
	}
	return sinceMs
}

// ended is given the result of oldest before each step. It returns since when a batch had
// waited that no longer does, 0 if there is none. What came after that batch on its link
// arrives only now.
func (b *behind) ended(oldestMs int64) (sinceMs int64) {
	if b.toldMs != oldestMs {
		sinceMs = b.toldMs
	}
	b.toldMs = oldestMs
	return sinceMs
}
