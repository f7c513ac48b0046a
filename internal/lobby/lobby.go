// Package lobby holds the connections of a port whose other end has not introduced
// itself yet.
//
// Strangers may be many and send nothing; the peers that are expected introduce
// themselves at once. So a full lobby refuses nobody: it closes the connection that has
// waited longest among those of the host that has opened the most.
package lobby

import (
	"net"
	"slices"
	"sync"
)

// Max is how many connections may stand in a lobby.
const Max = 64

// Lobby is where connections wait. The zero value is ready for use; all methods may be
// called by any goroutine.
type Lobby struct {
	mu struct {
		sync.Mutex
		closed  bool
		waiting []net.Conn // the longest first
	}
}

// Enter takes a connection in; false if the lobby is closed. The connection that
// it replaces is closed.
func (l *Lobby) Enter(socket net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed {
		return false
	}
	l.mu.waiting = append(l.mu.waiting, socket)
	if len(l.mu.waiting) > Max {
		i := crowd(l.mu.waiting)
		l.mu.waiting[i].Close()
		l.mu.waiting = slices.Delete(l.mu.waiting, i, i+1)
	}
	return true
}

// crowd is the place of the connection that has waited longest among those of the host
// that has the most: a single stranger takes places from itself alone.
func crowd(waiting []net.Conn) int {
	of := map[string]int{}
	most := 0
	for _, socket := range waiting {
		host := hostOf(socket)
		of[host]++
		most = max(most, of[host])
	}
	return slices.IndexFunc(waiting, func(socket net.Conn) bool { return of[hostOf(socket)] == most })
}

func hostOf(socket net.Conn) string {
	host, _, _ := net.SplitHostPort(socket.RemoteAddr().String())
	return host
}

// Leave lets a connection out, which has introduced itself or ended.
func (l *Lobby) Leave(socket net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.waiting = slices.DeleteFunc(l.mu.waiting, func(c net.Conn) bool { return c == socket })
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
	for _, socket := range l.mu.waiting {
		socket.Close()
	}
	l.mu.waiting = nil
}
