package server

import (
	"strconv"

	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/replica"
)

// reconfigure carries out what a step has changed in the configuration of the ensemble.
func (s *Server) reconfigure(e *replica.Ensembles) {
	if e.Learned != nil {
		s.learn(&addressBook{inForce: s.peers.known.Load().inForce, proposed: e.Learned})
	}
	// One step may put a configuration in force and learn of the next one. They are handled in
	// the order of their versions, so that the newest remains known.
	if e.InForce != nil && e.Proposed != nil && e.Proposed.Version > e.InForce.Version {
		s.putInForce(e.InForce)
		s.propose(e.Proposed)
		return
	}
	if e.Proposed != nil {
		s.propose(e.Proposed)
	}
	if e.InForce != nil {
		s.putInForce(e.InForce)
	}
}

func (s *Server) propose(c *ensemble.Config) {
	s.saver.put(c, true)
	s.learn(&addressBook{inForce: s.peers.known.Load().inForce, proposed: c})
}

func (s *Server) putInForce(c *ensemble.Config) {
	s.saver.put(c, false)
	before := s.peers.known.Load()
	book := &addressBook{inForce: c}
	if p := before.proposed; p != nil && p.Version > c.Version {
		book.proposed = p // one of its servers may be elected
	}
	s.learn(book)
	s.cfg.Logger.Info("configuration in force", "version", strconv.FormatInt(c.Version, 16), "servers", c.Lines())
	m := c.Member(s.cfg.ID)
	if m == nil {
		s.cfg.Logger.Warn("this server is not in the configuration: it follows without a vote, and keeps its directory, until it is added again or stopped")
		return
	}
	s.moveClients(m)
}

// learn makes a book the one by which servers are found: this server by the others, and the
// others by this one. Existing links stay.
func (s *Server) learn(book *addressBook) {
	s.peers.known.Store(book)
	s.peers.listen(book)
	s.peers.advertise(book)
	s.peers.votes.Reconfigured()
	s.peers.votes.Recheck()
	s.peers.links.Recheck()
}
