package server

import (
	"cmp"
	"fmt"
	"net"

	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/ports"
)

// clientPort is a port for clients. There are two: clientPort, and secureClientPort for TLS.
type clientPort struct {
	key    string
	secure bool
	ports  *ports.Ports // listens nowhere if the configuration names no address

	accepts bool // clients are accepted, or will be once it is open; of the loop
}

// The ports for clients.
const (
	plainPort = iota
	securePort
	clientPorts
)

// listenForClients opens the configured ports.
func (s *Server) listenForClients() error {
	s.clients = [clientPorts]clientPort{{key: "clientPort"}, {key: "secureClientPort", secure: true}}
	var line ensemble.Member
	if s.cfg.Ensemble != nil {
		if m := s.cfg.Line(); m != nil {
			line = *m
		}
	}
	for i := range s.clients {
		p := &s.clients[i]
		p.ports = ports.New(ports.Options{Name: p.key, Keep: true, Logger: s.cfg.Logger})
	}
	for i, wanted := range []string{s.cfg.ClientAddr, s.cfg.SecureAddr} {
		p := &s.clients[i]
		listener := s.cfg.Listener
		if listener == nil || p.secure {
			if wanted == "" {
				continue
			}
			var err error
			if listener, err = net.Listen("tcp", wanted); err != nil {
				return fmt.Errorf("listen for clients on %s (%s): %w", wanted, p.key, err)
			}
		}
		if a := [clientPorts]ensemble.Address{line.Client, line.Secure}[i]; a.Port != 0 {
			wanted = a.String()
		}
		p.ports.Take(cmp.Or(wanted, listener.Addr().String()), listener)
	}
	return nil
}

// secured returns a listener for clients with the configured TLS.
func (s *Server) secured(l net.Listener, secure bool) net.Listener {
	if s.cfg.SecureClients == nil {
		return l
	}
	return s.cfg.SecureClients(l, secure)
}

// Addr returns the address at which the server listens for clients; nil if it does not. A
// reconfig may move it.
func (s *Server) Addr() net.Addr { return s.addrOf(plainPort) }

// SecureAddr returns the address for clients that use TLS; nil if there is none.
func (s *Server) SecureAddr() net.Addr { return s.addrOf(securePort) }

func (s *Server) addrOf(port int) net.Addr {
	if s.clients[port].ports == nil { // before the start
		return nil
	}
	return s.clients[port].ports.Addr()
}

// portsFailed returns which ports should be open and cannot be opened, and why: a reconfig has
// moved them.
func (s *Server) portsFailed() []string {
	var all []string
	tell := func(key string, p *ports.Ports) {
		if p == nil {
			return
		}
		for _, one := range p.Failed() {
			all = append(all, key+" "+one)
		}
	}
	for i := range s.clients {
		tell(s.clients[i].key, s.clients[i].ports)
	}
	tell("quorum port", s.quorumPort)
	tell("election port", s.electionPort)
	tell("port for observers", s.observerPort)
	return all
}

// acceptClients begins to accept clients.
func (s *Server) acceptClients() {
	for i := range s.clients {
		if p := &s.clients[i]; p.ports.Addr() != nil {
			s.acceptOn(p)
		}
	}
}

func (s *Server) acceptOn(p *clientPort) {
	if !p.accepts {
		p.accepts = true
		s.task(func() { s.accept(s.secured(p.ports, p.secure)) })
	}
}

// closeClientPorts stops accepting clients.
func (s *Server) closeClientPorts() {
	for i := range s.clients {
		if p := s.clients[i].ports; p != nil {
			p.Close()
		}
	}
}

// moveClients makes the server accept clients at the addresses in its line, if it has any.
// Connected clients stay, and the old port stays open until the new one is open. A port for TLS
// is not opened without the TLS files, which are read only at the start.
func (s *Server) moveClients(m *ensemble.Member) {
	for i, a := range []ensemble.Address{m.Client, m.Secure} {
		p := &s.clients[i]
		switch {
		case a.Port == 0:
		case p.secure && s.cfg.SecureClients == nil && s.cfg.SecureAddr == "":
			s.cfg.Logger.Error("the TLS port for clients opens only at the next start, because this server has read no TLS files: "+
				"set ssl.keyStore.location and ssl.trustStore.location", "address", a)
		default:
			p.ports.Move(a.String())
			s.acceptOn(p)
		}
	}
}
