package server

import (
	"sync"

	"github.com/conclave-project/conclave/internal/zab"
)

// behind knows since when messages of other servers wait to be handed to the loop: while
// the disk or the loop has too much to do. Among them may be heartbeats of sessions, which
// must not end meanwhile. What it holds up counts as silence of the other servers all the
// same: a leader whose disk is stalled gives up its role.
type behind struct {
	mu     sync.Mutex
	waitMs map[zab.LinkID]int64 // since when the batch of a link waits

	toldMs int64 // of the loop: what oldest said last
}

// begin notes that a batch of a link has come.
func (b *behind) begin(link zab.LinkID, nowMs int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waitMs == nil {
		b.waitMs = make(map[zab.LinkID]int64)
	}
	b.waitMs[link] = nowMs
}

// end notes that it is in the inbox.
func (b *behind) end(link zab.LinkID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waitMs, link)
}

// oldest returns since when a batch waits, 0 if none does. A caller that then takes the
// inbox finds there all that has ended before.
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

// ended is told what oldest says before each step, and returns since when a batch waited
// that does so no more, 0 if none did. What came after it on its link arrives only now.
func (b *behind) ended(oldestMs int64) (sinceMs int64) {
	if b.toldMs != oldestMs {
		sinceMs = b.toldMs
	}
	b.toldMs = oldestMs
	return sinceMs
}
