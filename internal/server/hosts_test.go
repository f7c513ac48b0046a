package server

import (
	"net"
	"net/netip"
	"testing"

	"github.com/conclave-project/conclave/internal/vfs"
)

// from is a connection from an address.
type from struct {
	net.Conn
	address string
}

func (f from) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.ParseIP(f.address), Port: 1}
}

// TestAddressesOfOneNetworkAreOneHost: one host may use each of the 2^64 addresses of an IPv6
// network, and must not evade limits by address with them.
func TestAddressesOfOneNetworkAreOneHost(t *testing.T) {
	for name, c := range map[string]struct {
		bits      int
		addresses []string
		hosts     int
	}{
		"one network":           {64, []string{"2001:db8::1", "2001:db8::2", "2001:db8::ffff:1:2:3"}, 1},
		"three networks":        {64, []string{"2001:db8:0:1::1", "2001:db8:0:2::1", "2001:db8:0:3::1"}, 3},
		"a longer prefix":       {128, []string{"2001:db8::1", "2001:db8::2", "2001:db8::1"}, 2},
		"a shorter prefix":      {56, []string{"2001:db8:0:1::1", "2001:db8:0:2::1", "2001:db8:0:3::1"}, 1},
		"IPv4":                  {64, []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}, 3},
		"IPv4, carried by IPv6": {64, []string{"::ffff:10.0.0.1", "10.0.0.1", "::ffff:10.0.0.2"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, vfs.NewMem(), func(cfg *Config) {
				cfg.NetworkBits = c.bits
				cfg.Throttle.Rates.Address.Requests = 1
			})
			var all []*conn
			in := 0
			for _, address := range c.addresses {
				one := newConn(s, from{address: address})
				all = append(all, one)
				if s.conns.add(one, 1, 0) {
					in++
				}
				one.holdToPace(one.identities)
			}
			s.paces.mu.Lock()
			paces := len(s.paces.all)
			s.paces.mu.Unlock()
			if in != c.hosts || paces != c.hosts {
				t.Errorf("%d connections with one of each host, %d paces of hosts; want %d", in, paces, c.hosts)
			}
			for _, one := range all {
				one.leavePaces()
				s.conns.remove(one)
			}
			if len(s.conns.mu.perIP) != 0 || len(s.paces.all) != 0 {
				t.Errorf("kept of those that have gone: %v, %v", s.conns.mu.perIP, s.paces.all)
			}
		})
	}
}

// connFrom is a connection from an address, to a server that counts hosts as usual.
func connFrom(address string) *conn {
	return &conn{server: &Server{cfg: Default()}, remote: netip.AddrPortFrom(netip.MustParseAddr(address), 1)}
}
