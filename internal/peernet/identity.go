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

// identified is a connection that knows whether what was proved on it, by a certificate or by
// SASL, is for one of some hosts.
type identified interface{ IsOf(hosts []string) error }

// actsAs judges whether who has dialed may act as a server with some hosts; any may that no
// certificate and no proof of a host speaks for, and as a server that no configuration names.
func actsAs(socket net.Conn, server quorum.ID, hosts []string) error {
	if c, ok := socket.(identified); ok && len(hosts) > 0 {
		if err := c.IsOf(hosts); err != nil {
			return fmt.Errorf("peernet: somebody acts as server %d: %w", server, err)
		}
	}
	return nil
}

// HostsOf returns the hosts for one of which a certificate or a proof must be that comes from a
// server with that number: its own in the configuration in force and in the proposed one. None: any will
// do. It is called by any goroutine, and calls nothing of this package.
type HostsOf func(quorum.ID) []string

// acts judges whether who has dialed may act as a server now.
func (hosts HostsOf) acts(socket net.Conn, server quorum.ID) error {
	if hosts == nil {
		return nil
	}
	return actsAs(socket, server, hosts(server))
}

// Recheck judges by the hosts of now on whose behalf the other ends of links speak that came in:
// a stranger may have been let in under a number that a configuration names since.
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

// Recheck is the same for the connections that carry votes.
func (v *Votes) Recheck() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, p := range v.mu.peers {
		if p.conn != nil {
			v.recheck(p.conn)
		}
	}
}

// recheck judges who has dialed a connection by the hosts of now. Called with mu held.
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

// joined is for a stranger whose number a configuration has come to name. Nobody has judged where
// it said that it listens: somebody else may be there, with a certificate of its own. So the server
// of that number is not looked for at another host than its own, and a connection that was dialed to
// one is not with it. What it has dialed itself is judged now. Called with mu held.
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
