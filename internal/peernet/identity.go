package peernet

import (
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"

	"github.com/conclave-project/conclave/internal/peerwire"
	"github.com/conclave-project/conclave/internal/quorum"
)

// identified is a connection that can check whether the identity proved on it, by a
// certificate or by SASL, is one of some hosts.
type identified interface{ IsOf(hosts []string) error }

// actsAs checks whether the other end of an accepted connection may act as a server with the
// given hosts. A connection without a certificate and without a proof of a host may act as
// any server, and any connection may act as a server that no configuration names.
func actsAs(socket net.Conn, server quorum.ID, hosts []string) error {
	if c, ok := socket.(identified); ok && len(hosts) > 0 {
		if err := c.IsOf(hosts); err != nil {
			return fmt.Errorf("peernet: somebody acts as server %d: %w", server, err)
		}
	}
	return nil
}

// HostsOf returns the hosts of a server: those in the configuration in force and in the proposed one. A
// certificate or proof from the server must be for one of them. If there are none, any will do. It is
// called by any goroutine, and must not call this package.
type HostsOf func(quorum.ID) []string

// acts checks whether the other end may act as a server now.
func (hosts HostsOf) acts(socket net.Conn, server quorum.ID) error {
	if hosts == nil {
		return nil
	}
	return actsAs(socket, server, hosts(server))
}

// Recheck checks again, with the current hosts, whether the other ends of accepted links may act
// as their servers: a stranger may have been accepted under a number that a configuration names
// now.
func (l *Links) Recheck() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k := range l.mu.running {
		if server, greeted := k.server, k.greeted; greeted && !l.mu.closed {
			l.tasks.Go(func() {
				if err := l.o.Hosts.acts(k.socket, server); err != nil {
					l.refused.log(l.o.Logger, slog.LevelWarn, "end a link of the quorum port", k.socket, err)
					k.cut()
				}
			})
		}
	}
}

// Recheck does the same as Links.Recheck for the connections that carry votes.
func (v *Votes) Recheck() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, p := range v.mu.peers {
		if p.conn != nil {
			v.recheck(p.conn)
		}
	}
}

// recheck checks the other end of an accepted connection with the current hosts. Called with mu
// held.
func (v *Votes) recheck(c *voteConn) {
	if v.mu.closed {
		return
	}
	v.tasks.Go(func() {
		if err := v.o.Hosts.acts(c.socket, c.peer.id); err != nil {
			v.refused.log(v.o.Logger, slog.LevelWarn, "end a connection to the election port", c.socket, err)
			c.close()
		}
	})
}

// joined handles a stranger whose number a configuration now names. The address where it said it
// listens was never checked: another server with its own certificate may be there. So the server of
// that number is dialed only at its own hosts, and a connection that was dialed to another host is
// closed. A connection that the stranger dialed is checked now. Called with mu held.
func (v *Votes) joined(p *votePeer) {
	if v.o.Hosts == nil {
		return
	}
	hosts := v.o.Hosts(p.id)
	own := func(host string) bool {
		return len(hosts) == 0 || slices.ContainsFunc(hosts, func(one string) bool { return strings.EqualFold(one, host) })
	}
	p.advertised = slices.DeleteFunc(slices.Clone(p.advertised), func(a peerwire.Address) bool { return !own(a.Host) })
	p.stopDialing()
	switch c := p.conn; {
	case c == nil:
	case c.dialed == "":
		v.recheck(c)
	case !own(c.dialed):
		p.disconnect()
	}
}
