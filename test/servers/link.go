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

// A Link is a proxy between clients and one server on this machine, for any protocol over
// TCP. Each direction can be partitioned, slowed and healed separately. It is safe for
// concurrent use.
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

// Cut partitions both directions, see Network.Cut.
func (l *Link) Cut() {
	l.CutRequests()
	l.CutReplies()
}

// CutRequests partitions the direction to the server; what the server sends still arrives.
func (l *Link) CutRequests() { l.network.Cut(linkClient, linkServer) }

// CutReplies partitions the direction to the client: requests arrive but replies do not.
func (l *Link) CutReplies() { l.network.Cut(linkServer, linkClient) }

// Delay delays requests and replies by the given times.
func (l *Link) Delay(requests, replies time.Duration) {
	l.network.Delay(linkClient, linkServer, requests)
	l.network.Delay(linkServer, linkClient, replies)
}

// Reset closes all connections; new ones can be made.
func (l *Link) Reset() { l.network.Reset(linkClient, linkServer) }

// Strand lets all existing connections die silently, as when a NAT table forgets them; new
// ones work.
func (l *Link) Strand() { l.network.Strand(linkClient, linkServer) }

// Heal opens both directions and removes the delays. Bytes that were held back arrive.
func (l *Link) Heal() { l.network.Heal() }

// Requests returns how many pieces and bytes have gone to the server; a piece is the result
// of one read.
func (l *Link) Requests() (pieces, bytes int64) {
	return l.network.gate(direction{linkClient, linkServer}).counted()
}

// Replies is the same for the direction to the client.
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
