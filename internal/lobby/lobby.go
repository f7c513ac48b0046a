// Package lobby holds the connections of a port whose other end has not introduced
// itself yet, and counts what came to nothing.
//
// Strangers may be many and send nothing; the peers that are expected introduce
// themselves soon. A full lobby closes the connection that has waited longest among those
// of the host that has opened the most. Where no host has many, strangers come from many
// addresses: then only a connection that has had its time is replaced, and where there is
// none the new one is refused, so that a peer whose handshake takes long ends it.
package lobby

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	// Max is how many connections may stand in a lobby.
	Max = 256
	// crowdMin is from how many connections on a host loses the oldest of them at once.
	crowdMin = 8
	// stay is how long all others may stand there before another takes their place.
	stay = time.Second
)

// Lobby is where connections wait. The zero value is ready for use; all methods may be
// called by any goroutine.
type Lobby struct {
	mu struct {
		sync.Mutex
		closed  bool
		waiting []waiting // the longest first
	}
}

type waiting struct {
	socket net.Conn
	since  time.Time
}

// Enter takes a connection in; false if there is no place for it now, or the lobby is
// closed. The connection that it replaces is closed.
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

// replaced is the place of the connection that has waited longest among those of the host
// that has the most: a single stranger takes places from itself alone. Where no host has
// many it is the longest waiting of all, or the last, which has just come.
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

// hostOf is the host at the other end.
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

// HostOf is the host that an address is counted for; of IPv6 the network, whose prefix has
// so many bits.
func HostOf(address netip.Addr, bits int) netip.Addr {
	host := address.Unmap().WithZone("")
	if host.Is6() {
		if network, err := host.Prefix(bits); err == nil {
			return network.Addr()
		}
	}
	return host
}

// Leave lets a connection out, which has introduced itself or ended.
func (l *Lobby) Leave(socket net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.waiting = slices.DeleteFunc(l.mu.waiting, func(w waiting) bool { return w.socket == socket })
}

// Count returns how many wait.
func (l *Lobby) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.mu.waiting)
}

// Close ends all that wait, and lets nobody in any more.
func (l *Lobby) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.closed = true
	for _, w := range l.mu.waiting {
		w.socket.Close()
	}
	l.mu.waiting = nil
}
