package server

import (
	"fmt"
	"net"

	"github.com/conclave-project/conclave/internal/ensemble"
)

// clientPort is where clients connect. There are two: clientPort, and secureClientPort
// for TLS.
type clientPort struct {
	key      string
	secure   bool
	listener net.Listener     // nil if the port is not open; guarded by Server.listening once Run runs
	line     ensemble.Address // where the line of this server has the port, if it says so; of the loop
}

// The ports for clients.
const (
	plainPort = iota
	securePort
	clientPorts
)

// listenForClients opens the ports that the configuration asks for.
func (s *Server) listenForClients() error {
	s.clients = [clientPorts]clientPort{{key: "clientPort"}, {key: "secureClientPort", secure: true}}
	for i, addr := range []string{s.cfg.ClientAddr, s.cfg.SecureAddr} {
		p := &s.clients[i]
		listener := s.cfg.Listener
		if listener == nil || p.secure {
			if addr == "" {
				continue
			}
			var err error
			if listener, err = net.Listen("tcp", addr); err != nil {
				return fmt.Errorf("listen for clients on %s (%s): %w", addr, p.key, err)
			}
		}
		p.listener = s.secured(listener, p.secure)
	}
	return nil
}

// secured returns a listener for clients as the configuration wants it.
func (s *Server) secured(l net.Listener, secure bool) net.Listener {
	if s.cfg.SecureClients == nil {
		return l
	}
	return s.cfg.SecureClients(l, secure)
}

// Addr is where the server listens for clients; nil if it does not. A reconfig
// may move it.
func (s *Server) Addr() net.Addr { return s.addrOf(plainPort) }

// SecureAddr is where it listens for clients that speak TLS; nil if it does not.
func (s *Server) SecureAddr() net.Addr { return s.addrOf(securePort) }

func (s *Server) addrOf(port int) net.Addr {
	s.listening.Lock()
	defer s.listening.Unlock()
	if s.clients[port].listener == nil {
		return nil
	}
	return s.clients[port].listener.Addr()
}

// acceptClients begins to take clients.
func (s *Server) acceptClients() {
	for i := range s.clients {
		if listener := s.clients[i].listener; listener != nil {
			s.task(func() { s.accept(listener) })
		}
	}
}

// closeClientPorts takes no more clients.
func (s *Server) closeClientPorts() {
	for i := range s.clients {
		if listener := s.clients[i].listener; listener != nil {
			listener.Close()
		}
	}
}

// moveClients takes clients on other ports from now on, if this server's line names
// others than before. Those who are here stay.
func (s *Server) moveClients(m *ensemble.Member) {
	s.movePort(&s.clients[plainPort], m.Client)
	s.movePort(&s.clients[securePort], m.Secure)
}

func (s *Server) movePort(p *clientPort, a ensemble.Address) {
	before := p.line
	if a.Port == 0 || a == before || p.listener == nil {
		return
	}
	if before.Port == 0 { // no line has said it yet, the file did
		p.line = a
		return
	}
	l, err := net.Listen("tcp", a.String())
	if err != nil {
		s.cfg.Logger.Error("the new port for clients cannot be opened, the old one stays open", "port", p.key, "address", a.String(), "error", err)
		return
	}
	l = s.secured(l, p.secure)
	p.line = a
	s.listening.Lock()
	old := p.listener
	p.listener = l
	s.listening.Unlock()
	s.task(func() { s.accept(l) })
	old.Close()
	s.cfg.Logger.Info("clients are served on another port", "port", p.key, "address", a.String())
}
