package server

import (
	"net"
	"slices"
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
	s.move(before.inForce.Member(s.cfg.ID), c.Member(s.cfg.ID))
}

func (s *Server) learn(book *addressBook) {
	s.peers.known.Store(book)
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

// move opens other ports if this server's addresses have changed. One that is
// not in the configuration any more stays where it is.
func (s *Server) move(before, now *ensemble.Member) {
	if before == nil || now == nil {
		return
	}
	if now.Client.Port != 0 && now.Client != before.Client && s.listener != nil {
		s.moveClients(now.Client)
	}
	if !slices.Equal(now.Quorum, before.Quorum) || !slices.Equal(now.Election, before.Election) {
		s.movePeers(before, now)
	}
}

// moveClients takes clients on another port from now on. Those who are here
// stay.
func (s *Server) moveClients(a ensemble.Address) {
	l, err := net.Listen("tcp", a.String())
	if err != nil {
		s.cfg.Logger.Error("the new client port cannot be opened, the old one stays open", "address", a.String(), "error", err)
		return
	}
	s.listening.Lock()
	old := s.listener
	s.listener = l
	s.listening.Unlock()
	s.task(func() { s.accept(l) })
	old.Close()
	s.cfg.Logger.Info("clients are served on another port", "address", a.String())
}

// movePeers opens the ports for servers at other addresses, either or both. All
// connections to a port that moves begin again; the other stays as it is.
func (s *Server) movePeers(before, now *ensemble.Member) {
	quorumPort, err := reopen(s.cfg.QuorumAddr, before.Quorum[0], now.Quorum[0])
	if err != nil {
		s.cfg.Logger.Error("the new quorum port cannot be opened, the old one stays open", "address", now.Quorum[0].String(), "error", err)
		return
	}
	electionPort, err := reopen(s.cfg.ElectionAddr, before.Election[0], now.Election[0])
	if err != nil {
		if quorumPort != nil {
			quorumPort.Close()
		}
		s.cfg.Logger.Error("the new election port cannot be opened, the old one stays open", "address", now.Election[0].String(), "error", err)
		return
	}
	if quorumPort != nil {
		// Not waited for: what reads them may wait for the disk, or for this loop.
		old := s.peers.links
		old.Cut()
		s.task(old.Shutdown)
		s.peers.openLinks(quorumPort)
	}
	if electionPort != nil {
		s.task(s.peers.votes.Close)
		if err := s.peers.openVotes(electionPort); err != nil {
			s.fail(err)
		}
	}
}

// reopen listens where a port moves to, on all addresses if it did so before;
// nil if it stays.
func reopen(wanted string, before, now ensemble.Address) (net.Listener, error) {
	host := ""
	if !strings.HasPrefix(wanted, ":") {
		host = now.Host
	}
	if now.Port == before.Port && (host == "" || now.Host == before.Host) {
		return nil, nil
	}
	return net.Listen("tcp", ensemble.Address{Host: host, Port: now.Port}.String())
}
