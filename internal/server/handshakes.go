package server

import (
	"net/netip"
	"slices"
	"sync"
)

// handshakes are the connections that shake hands for TLS, by the host of each, the oldest
// first. All methods may be called by any goroutine.
type handshakes struct {
	mu    sync.Mutex
	of    map[netip.Addr][]*conn
	count int
}

// enter takes a connection in. Where there are most of them already it takes the place of
// the oldest of the host that has the most, if that has more than its own: one that opens
// connections and says nothing keeps no other host out. It returns the connection that must
// go, which may be the new one; nil for none. There is no limit if most is 0.
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

// largest is the host that has the most.
func (h *handshakes) largest() (largest netip.Addr) {
	for host, all := range h.of {
		if n := len(h.of[largest]); len(all) > n || len(all) == n && host.Less(largest) {
			largest = host
		}
	}
	return largest
}

// leave notes that a connection has shaken hands, or will not.
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
