package inprocess

import (
	"context"
	"errors"
	"net"
	"sync"
)

// network connects the servers: with real sockets on loopback, whose dialing side can hold
// back all data.
type network struct {
	mu     sync.Mutex
	places map[string]int  // server number by address
	cuts   map[[2]int]bool // unordered pairs
	conns  map[*gate]struct{}
	dead   map[int]bool
	change *sync.Cond
}

func newNetwork() *network {
	n := &network{places: map[string]int{}, cuts: map[[2]int]bool{}, conns: map[*gate]struct{}{}, dead: map[int]bool{}}
	n.change = sync.NewCond(&n.mu)
	return n
}

func (n *network) place(address string, id int) { n.places[address] = id }

func pair(a, b int) [2]int { return [2]int{min(a, b), max(a, b)} }

func (n *network) cut(a, b int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cuts[pair(a, b)] = true
}

func (n *network) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.cuts)
	n.change.Broadcast()
}

// sever closes all connections of a server and allows no new ones.
func (n *network) sever(id int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dead[id] = true
	for g := range n.conns {
		if g.pair[0] == id || g.pair[1] == id {
			g.Conn.Close()
		}
	}
}

// join allows a server connections again.
func (n *network) join(id int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.dead, id)
}

// parted reports whether two servers cannot have a connection at all.
func (n *network) parted(p [2]int) bool { return n.dead[p[0]] || n.dead[p[1]] }

var errCut = errors.New("the connection is cut")

// dialer dials for one server.
func (n *network) dialer(from int) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, kind, address string) (net.Conn, error) {
		n.mu.Lock()
		to := n.places[address]
		cut, parted := n.cuts[pair(from, to)], n.parted(pair(from, to))
		n.mu.Unlock()
		if parted {
			return nil, errCut
		}
		if cut {
			// Nothing answers, as behind a pulled cable.
			<-ctx.Done()
			return nil, errors.Join(errCut, ctx.Err())
		}
		conn, err := new(net.Dialer).DialContext(ctx, kind, address)
		if err != nil {
			return nil, err
		}
		g := &gate{Conn: conn, net: n, pair: pair(from, to)}
		n.mu.Lock()
		n.conns[g] = struct{}{}
		n.mu.Unlock()
		return g, nil
	}
}

// gate is a connection that holds back data while its two servers are partitioned.
type gate struct {
	net.Conn
	net    *network
	pair   [2]int
	closed bool // guarded by net.mu
}

// pass waits until the partition is healed or the connection closed.
func (g *gate) pass() error {
	g.net.mu.Lock()
	defer g.net.mu.Unlock()
	for g.net.cuts[g.pair] && !g.closed {
		g.net.change.Wait()
	}
	if g.closed || g.net.parted(g.pair) {
		return net.ErrClosed
	}
	return nil
}

func (g *gate) Read(b []byte) (int, error) {
	n, err := g.Conn.Read(b)
	if gone := g.pass(); gone != nil {
		return 0, gone
	}
	return n, err
}

func (g *gate) Write(b []byte) (int, error) {
	if err := g.pass(); err != nil {
		return 0, err
	}
	return g.Conn.Write(b)
}

func (g *gate) Close() error {
	g.net.mu.Lock()
	g.closed = true
	delete(g.net.conns, g)
	g.net.change.Broadcast()
	g.net.mu.Unlock()
	return g.Conn.Close()
}
