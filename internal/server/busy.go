package server

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/conclave-project/conclave/internal/zab"
)

// busy knows since when the loop is at one step. A step may be long, as when a session with
// a hundred thousand ephemerals ends that many clients watch: all servers have to take it,
// and an election would not make it shorter. The other servers learn meanwhile that this one
// works, for initLimit at most: a loop that hangs loses its role.
type busy struct {
	sinceMs  atomic.Int64 // 0: the loop waits
	lookedMs atomic.Int64 // until when it has looked at what other servers have sent

	mu    sync.Mutex
	links []zab.LinkID // that take such a heartbeat
}

// begin notes that the loop begins a step.
func (b *busy) begin(nowMs int64) { b.sinceMs.Store(max(nowMs, 1)) }

// end notes that it waits for the next one.
func (b *busy) end() { b.sinceMs.Store(0) }

// take puts the links into use that take a heartbeat from now on.
func (b *busy) take(links func([]zab.LinkID) []zab.LinkID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.links = links(b.links[:0])
}

// blind reports whether the loop has not looked at the other servers for so long that a
// session may have ended, and this server's role, without its knowledge: half the shortest
// timeout of a session, and a tick at most. No ping or read is answered beside the loop
// then: a client must not be told that its session lives, nor that it has a lock.
func (s *Server) blind(nowMs int64) bool {
	if s.cfg.Ensemble == nil {
		return false
	}
	most := min(s.cfg.TickTime, s.cfg.SessionMin/2)
	return nowMs-s.busy.lookedMs.Load() > max(most.Milliseconds(), 1)
}

// tellBusy sends heartbeats for the loop where its step has taken half a tick, which is
// when it would have sent some.
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
