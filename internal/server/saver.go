package server

import (
	"sync"

	"github.com/conclave-project/conclave/internal/ensemble"
)

// saver saves configurations for the next start, outside the loop: their disk may be slow, and
// heartbeats must not wait for it. It keeps the newest of each kind. A server that ends before
// one is saved finds it in its log, or learns of it from the others.
type saver struct {
	ready chan struct{} // a token when there is something to save; closed at the end

	mu      sync.Mutex
	next    *ensemble.Config // proposed
	inForce *ensemble.Config
}

func newSaver() *saver { return &saver{ready: make(chan struct{}, 1)} }

// put leaves a configuration to be saved: with next a proposed one, otherwise the one that has
// taken effect. The loop calls it.
func (s *saver) put(c *ensemble.Config, next bool) {
	s.mu.Lock()
	if next {
		s.next = c
	} else {
		s.inForce = c
	}
	s.mu.Unlock()
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// end makes runSaver end once everything is saved. Nothing may be put after it.
func (s *saver) end() { close(s.ready) }

// take returns what has to be saved, nil for nothing. A proposal that has been decided is left
// out.
func (s *saver) take() (inForce, next *ensemble.Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	inForce, next = s.inForce, s.next
	s.inForce, s.next = nil, nil
	if inForce != nil && next != nil && next.Version <= inForce.Version {
		next = nil
	}
	return inForce, next
}

// runSaver saves until it is ended. If a configuration is not saved, the server starts with an
// older one, and learns of the newer one from its own data or from its peers.
func (s *Server) runSaver() {
	save := func(c *ensemble.Config, next bool) {
		if c == nil || s.cfg.SaveEnsemble == nil {
			return
		}
		if err := s.cfg.SaveEnsemble(c, next); err != nil {
			s.cfg.Logger.Error("the configuration was not saved: its file still has an older one, and a start learns the newer one from the data or from the other servers", "error", err)
		}
	}
	for open := true; open; {
		_, open = <-s.saver.ready
		inForce, next := s.saver.take()
		save(inForce, false)
		save(next, true)
	}
}
