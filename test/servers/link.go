//go:build linux

package servers

import (
	"fmt"
	"net"
	"strconv"
	"time"
)

// The two ends of a Link.
const (
	linkClient = 1
	linkServer = 2
)

// A Link is a proxy between clients and one server on this machine, of any
// protocol over TCP. Each direction can be cut, slowed and healed by itself.
// Its methods may be called from any goroutine.
type Link struct {
	// Addr is where clients connect.
	Addr    string
	network *Network
}

// NewLink opens a proxy to the server at "127.0.0.1:port".
func NewLink(addr string) (*Link, error) {
	_, text, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("servers: link: %w", err)
	}
	target, err := strconv.Atoi(text)
	if err != nil {
		return nil, fmt.Errorf("servers: link to %s: %w", addr, err)
	}
	l := &Link{network: newNetwork()}
	port, err := l.network.listen(direction{linkClient, linkServer}, target, false)
	if err != nil {
		return nil, err
	}
	l.Addr = loopback(port)
	return l, nil
}

// Cut cuts both directions, see Network.Cut.
func (l *Link) Cut() {
	l.CutRequests()
	l.CutReplies()
}

// CutRequests cuts the way to the server; what it sends still arrives.
func (l *Link) CutRequests() { l.network.Cut(linkClient, linkServer) }

// CutReplies cuts the way back: requests arrive and their answers do not.
func (l *Link) CutReplies() { l.network.Cut(linkServer, linkClient) }

// Delay makes requests arrive later by the first, replies by the second.
func (l *Link) Delay(requests, replies time.Duration) {
	l.network.Delay(linkClient, linkServer, requests)
	l.network.Delay(linkServer, linkClient, replies)
}

// Reset closes all connections; new ones can be made.
func (l *Link) Reset() { l.network.Reset(linkClient, linkServer) }

// Strand lets all connections die silently, as a table of NAT does that
// forgets them; new ones work.
func (l *Link) Strand() { l.network.Strand(linkClient, linkServer) }

// Heal opens both directions and takes the delays away. What was held arrives.
func (l *Link) Heal() { l.network.Heal() }

// Requests is how many pieces have gone to the server and how many bytes,
// Replies what has come from it. A piece is what one read has brought.
func (l *Link) Requests() (pieces, bytes int64) {
	return l.network.gate(direction{linkClient, linkServer}).counted()
}

// Replies is the counterpart of Requests.
func (l *Link) Replies() (pieces, bytes int64) {
	return l.network.gate(direction{linkServer, linkClient}).counted()
}

func (g *gate) counted() (pieces, bytes int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pieces, g.bytes
}

// Close ends all connections and the proxy.
func (l *Link) Close() { l.network.close() }
