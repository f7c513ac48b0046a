package server

import (
	"net/netip"
	"slices"
	"sync"
)

// handshakes are the connections that are shaking hands for TLS, by host, the oldest first. Any
// goroutine may call its methods.
type handshakes struct {
	mu    sync.Mutex
	of    map[netip.Addr][]*conn
	count int
}

// enter adds a connection. If the limit is reached, the connection replaces the oldest one of
// the host that has the most, if that host has more than the connection's own: a host that
// opens connections and sends nothing cannot exclude others. It returns the connection that
// must be closed, which may be the new one; nil for none. If most is 0 there is no limit.
func (h *handshakes) enter(c *conn, most int) (refused *conn) {
	host := c.host()
	h.mu.Lock()
	defer h.mu.Unlock()
	if most > 0 && h.count >= most {
		largest := h.largest()
		if len(h.of[largest]) <= len(h.of[host])+1 {
			return c
		}
		refused = h.of[largest][0]
		h.remove(largest, refused)
	}
	if h.of == nil {
		h.of = map[netip.Addr][]*conn{}
	}
	h.of[host] = append(h.of[host], c)
	h.count++
	return refused
}

// largest returns the host that has the most connections.
func (h *handshakes) largest() (largest netip.Addr) {
	for host, all := range h.of {
		if n := len(h.of[largest]); len(all) > n || len(all) == n && host.Less(largest) {
			largest = host
		}
	}
	return largest
}

// leave removes a connection that has shaken hands, or will not.
func (h *handshakes) leave(c *conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.remove(c.host(), c)
}

func (h *handshakes) remove(host netip.Addr, c *conn) {
	i := slices.Index(h.of[host], c)
	if i < 0 {
		return
	}
	h.count--
	if h.of[host] = slices.Delete(h.of[host], i, i+1); len(h.of[host]) == 0 {
		delete(h.of, host)
	}
}

func (h *handshakes) now() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return int64(h.count)
}
