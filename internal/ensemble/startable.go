package ensemble

import (
	"errors"
	"fmt"
)

// startable returns why a server whose line differs from before could not be started with
// it, as far as the lines alone tell. Otherwise running servers would adopt a reconfig
// with which none of them can start, and this would show only after a power failure.
func (c *Config) startable(before *Config) error {
	taken := make(map[Address]*Member) // the places of servers that do not change
	var changed []*Member
	for i := range c.Members {
		m := &c.Members[i]
		if old := before.Member(m.ID); old == nil || !equalMembers(*old, *m) {
			changed = append(changed, m)
			continue
		}
		m.take(taken)
	}
	for _, m := range changed {
		if err := m.startable(); err != nil {
			return fmt.Errorf("server.%d=%s: %w", m.ID, m, err)
		}
		for _, address := range m.distinct() {
			if other := taken[address.place()]; other != nil {
				return fmt.Errorf("server.%d=%s: %s is an address of server %d", m.ID, m, address, other.ID)
			}
		}
		m.take(taken)
	}
	return nil
}

// peers returns the addresses at which other servers reach a server.
func (m *Member) peers() []Address {
	return append(append([]Address(nil), m.Quorum...), m.Election...)
}

func (m *Member) take(taken map[Address]*Member) {
	for _, address := range m.distinct() {
		taken[address.place()] = m
	}
}

var (
	errSamePort   = errors.New("a port for learners is one for votes as well: those of several addresses are open on all")
	errOnePort    = errors.New("its port for clients that speak TLS is its port for clients")
	errClientPort = errors.New("a port for clients is one of its two ports for servers")
)

// startable returns why a server could not open its ports.
func (m *Member) startable() error {
	if m.portsMeet() {
		return errSamePort
	}
	if m.ClientsMeetPeers(len(m.Quorum) > 1) {
		return errClientPort
	}
	if m.Client.Port != 0 && m.Client.Port == m.Secure.Port && (m.Client.Wildcard() || m.Secure.Wildcard() || m.Client.Same(m.Secure)) {
		return errOnePort
	}
	return nil
}

// portsMeet reports whether a server with several addresses uses the same port as quorum port
// at one address and as election port at another.
func (m *Member) portsMeet() bool {
	for _, quorum := range m.Quorum {
		for _, election := range m.Election {
			if len(m.Quorum) > 1 && quorum.Port == election.Port {
				return true
			}
		}
	}
	return false
}

// ClientsMeetPeers reports whether a server's client port is also one of its ports for servers, on
// the same address, as far as names tell. onAll says that the ports for servers are open on all
// addresses.
func (m *Member) ClientsMeetPeers(onAll bool) bool {
	for _, client := range []Address{m.Client, m.Secure} {
		if client.Port == 0 {
			continue
		}
		for _, peer := range m.peers() {
			if client.Port == peer.Port && (onAll || client.Wildcard() || peer.Wildcard() || client.Same(peer)) {
				return true
			}
		}
	}
	return false
}
