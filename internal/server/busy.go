package server

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/conclave-project/conclave/internal/zab"
)

// busy records since when the loop has been busy with one step. A step may be long, for example
// when a session ends that has a hundred thousand ephemerals which many clients watch. All
// servers have to execute that step, and an election would not make it shorter. So the other
// servers are told meanwhile that this one works, but for at most initLimit: a loop that hangs
// loses its role.
type busy struct {
	sinceMs  atomic.Int64 // 0: the loop is idle
	lookedMs atomic.Int64 // up to when it has looked at messages of other servers

	mu    sync.Mutex
	links []zab.LinkID // links on which such a heartbeat may be sent
}

// begin records that the loop begins a step.
func (b *busy) begin(nowMs int64) { b.sinceMs.Store(max(nowMs, 1)) }

// end records that the loop waits for the next step.
func (b *busy) end() { b.sinceMs.Store(0) }

// take updates the links on which a heartbeat may be sent from now on.
func (b *busy) take(links func([]zab.LinkID) []zab.LinkID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.links = links(b.links[:0])
}

// blind reports whether the loop has not looked at messages of other servers for so long that a
// session, or this server's role, may have ended without its knowledge: half the shortest
// session timeout, but at most a tick. Then no ping or read is answered outside the loop: a
// client must not be told that its session lives, nor that it has a lock.
func (s *Server) blind(nowMs int64) bool {
	if s.cfg.Ensemble == nil {
		return false
	}
	most := min(s.cfg.TickTime, s.cfg.SessionMin/2)
	return nowMs-s.busy.lookedMs.Load() > max(most.Milliseconds(), 1)
}

// tellBusy sends heartbeats on behalf of the loop if its step has taken half a tick, which is
// when the loop would have sent some itself.
func (s *Server) tellBusy() {
	since := s.busy.sinceMs.Load()
	if since == 0 {
		return
	}
	took := time.Duration(s.monoMs()-since) * time.Millisecond
	if took < s.cfg.TickTime/2 || took > time.Duration(s.cfg.InitLimit)*s.cfg.TickTime {
		return
	}
	s.busy.mu.Lock()
	defer s.busy.mu.Unlock()
	if len(s.busy.links) == 0 {
		return
	}
	heartbeat := zab.Busy()
	for _, link := range s.busy.links {
		s.peers.links.Send(link, &heartbeat)
	}
	s.peers.links.Flush()
}
