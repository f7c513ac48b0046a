// Package lobby holds the connections of a port whose other end has not introduced
// itself yet, and counts those that fail.
//
// There may be many strangers that send nothing; real peers introduce themselves soon. A
// full lobby closes the oldest connection of the host that has the most connections. If
// no host has many, the strangers come from many addresses. Then the lobby replaces only
// a connection that has had enough time, or else refuses the new one, so a peer with a
// slow handshake can finish it.
package lobby

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// Max is how many connections a lobby holds.
	Max = 256
	// crowdMin is the number of connections from which a host loses its oldest one at once.
	crowdMin = 8
	// stay is how long other connections may wait before a new one may replace them.
	stay = time.Second
)

// Lobby is a set of waiting connections. The zero value is ready for use; all methods
// are safe for concurrent use.
type Lobby struct {
	mu struct {
		sync.Mutex
		closed  bool
		waiting []waiting // oldest first
	}
}

type waiting struct {
	socket net.Conn
	since  time.Time
}

// Enter adds a connection; false if there is no place for it now, or the lobby is
// closed. A connection that it replaces is closed.
func (l *Lobby) Enter(socket net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed {
		return false
	}
	now := time.Now()
	l.mu.waiting = append(l.mu.waiting, waiting{socket, now})
	if len(l.mu.waiting) <= Max {
		return true
	}
	i := replaced(l.mu.waiting, now)
	old := l.mu.waiting[i].socket
	l.mu.waiting = slices.Delete(l.mu.waiting, i, i+1)
	if old == socket {
		return false
	}
	old.Close()
	return true
}

// replaced returns the index of the connection to close: the oldest one of the host that
// has the most, so a single stranger takes places only from itself. If no host has many,
// it is the oldest of all, if that has waited long enough, else the last, which has just
// come.
func replaced(all []waiting, now time.Time) int {
	of := map[netip.Addr]int{}
	most := 0
	for _, w := range all {
		host := hostOf(w.socket)
		of[host]++
		most = max(most, of[host])
	}
	if most >= crowdMin {
		return slices.IndexFunc(all, func(w waiting) bool { return of[hostOf(w.socket)] == most })
	}
	if now.Sub(all[0].since) >= stay {
		return 0
	}
	return len(all) - 1
}

// hostOf returns the host at the other end.
func hostOf(socket net.Conn) netip.Addr {
	at, err := netip.ParseAddrPort(socket.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return HostOf(at.Addr(), NetworkBits)
}

// NetworkBits is the length of the prefix of an IPv6 network, of which one host may use each
// address.
const NetworkBits = 64

// HostOf returns the host to which an address is counted. For IPv6 it is the network with
// a prefix of this many bits.
func HostOf(address netip.Addr, bits int) netip.Addr {
	host := address.Unmap().WithZone("")
	if host.Is6() {
		if network, err := host.Prefix(bits); err == nil {
			return network.Addr()
		}
	}
	return host
}

// Leave removes a connection that has introduced itself or ended.
func (l *Lobby) Leave(socket net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.waiting = slices.DeleteFunc(l.mu.waiting, func(w waiting) bool { return w.socket == socket })
}

// Count returns how many connections wait.
func (l *Lobby) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.mu.waiting)
}

// Close closes all waiting connections and refuses new ones.
func (l *Lobby) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.closed = true
	for _, w := range l.mu.waiting {
		w.socket.Close()
	}
	l.mu.waiting = nil
}
