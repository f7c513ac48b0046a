package server

import (
	"net"
	"strings"

	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/replica"
)

// reconfigure carries out what a step has changed about the configuration of the
// ensemble, before the disk learns of the record of the change.
func (s *Server) reconfigure(e *replica.Ensembles) {
	if e.Learned != nil {
		s.learn(&addressBook{inForce: s.peers.known.Load().inForce, proposed: e.Learned})
	}
	// One step may put a configuration in force and learn of the next one: in the
	// order of their versions, the newest stays known.
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
	s.saveEnsemble(c, true)
	s.learn(&addressBook{inForce: s.peers.known.Load().inForce, proposed: c})
}

func (s *Server) putInForce(c *ensemble.Config) {
	s.saveEnsemble(c, false)
	before := s.peers.known.Load()
	book := &addressBook{inForce: c}
	if p := before.proposed; p != nil && p.Version > c.Version {
		book.proposed = p // one of its servers may be elected
	}
	s.learn(book)
	s.cfg.Logger.Info("configuration in force", "version", c.Version, "servers", c.Lines())
	if m := c.Member(s.cfg.ID); m != nil {
		s.moveClients(m)
	}
}

func (s *Server) learn(book *addressBook) {
	s.peers.known.Store(book)
	if line := book.line(s.cfg.ID); line != nil {
		s.movePeers(line)
	}
	s.peers.votes.Reconfigured()
}

// saveEnsemble keeps a configuration for the next start. Without it the server
// would start with an older one, and learn of the newer one from its peers.
func (s *Server) saveEnsemble(c *ensemble.Config, next bool) {
	if s.cfg.SaveEnsemble == nil {
		return
	}
	if err := s.cfg.SaveEnsemble(c, next); err != nil {
		s.cfg.Logger.Error("the configuration was not saved: this server starts with the older one next time", "error", err)
	}
}

// movePeers listens for servers where a line says, if that is elsewhere: either port, or
// both. Links stay; votes come by new connections. A server that is in no configuration
// stays where it was. One that only the proposed configuration names moves at once and not
// when that is in force: it may have what no other has, and has to be elected for it.
func (s *Server) movePeers(now *ensemble.Member) {
	before := s.peers.home
	if before == nil {
		s.peers.home = now // the line that it was started without
		return
	}
	quorumPort, err := s.reopen(s.cfg.QuorumAddr, before.Quorum, now.Quorum)
	if err != nil {
		s.cfg.Logger.Error("the new quorum port cannot be opened, the old one stays open", "address", now.Quorum[0].String(), "error", err)
		return
	}
	electionPort, err := s.reopen(s.cfg.ElectionAddr, before.Election, now.Election)
	if err != nil {
		if quorumPort != nil {
			quorumPort.Close()
		}
		s.cfg.Logger.Error("the new election port cannot be opened, the old one stays open", "address", now.Election[0].String(), "error", err)
		return
	}
	s.peers.home = now
	if quorumPort != nil {
		s.peers.links.Listen(quorumPort)
	}
	if electionPort != nil {
		s.task(s.peers.votes.Close) // not waited for: what reads votes may wait for this loop
		if err := s.peers.openVotes(electionPort); err != nil {
			s.fail(err)
		}
	}
}

// reopen listens where a port moves to, on all addresses if it did so before;
// nil if it stays.
func (s *Server) reopen(wanted string, before, now []ensemble.Address) (net.Listener, error) {
	host := ""
	if !strings.HasPrefix(wanted, ":") {
		host = now[0].Host
	}
	if now[0].Port == before[0].Port && (host == "" || host == before[0].Host) {
		return nil, nil
	}
	l, err := net.Listen("tcp", ensemble.Address{Host: host, Port: now[0].Port}.String())
	if err != nil {
		return nil, err
	}
	return s.securedPeers(l), nil
}
