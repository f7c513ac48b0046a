//go:build linux

package servers

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// chunkBytes is the most that is read from a connection at a time.
	chunkBytes = 32 << 10

	// chunksMax limits what one direction of a connection holds back while it is slow or
	// partitioned; after that it does not read, and the sender's buffers fill.
	chunksMax = 64

	// dialWithin limits a proxy's dial to a server on the same machine.
	dialWithin = 2 * time.Second
)

// A Network connects the servers of an ensemble with one proxy for each ordered pair and
// port. Each direction between two servers can be partitioned, slowed and healed
// separately, whichever of the two has opened the connection. It is safe for concurrent
// use; ids are those of the servers.
type Network struct {
	mu        sync.Mutex
	gates     map[direction]*gate
	listeners []net.Listener
	open      map[*passage]bool
	closed    bool
	election  map[direction]string // the address of To's election port as From sees it
	running   sync.WaitGroup
}

// A direction is the flow of bytes from one server to another.
type direction struct{ from, to int }

func (d direction) reversed() direction { return direction{d.to, d.from} }

// A passage is one proxied connection, dialed by the server dial.from.
type passage struct {
	dial   direction
	once   sync.Once
	ended  chan struct{}
	mu     sync.Mutex
	ends   []net.Conn
	broken bool

	stranded atomic.Bool // drops all bytes, and reports nothing
}

func newNetwork() *Network {
	return &Network{gates: map[direction]*gate{}, open: map[*passage]bool{}, election: map[direction]string{}}
}

// link opens the proxies through which from reaches to, and returns their ports.
func (n *Network) link(from, to *Member) (quorum, election int, err error) {
	d := direction{from.ID, to.ID}
	if quorum, err = n.listen(d, to.quorumPort, false); err != nil {
		return 0, 0, err
	}
	if election, err = n.listen(d, to.electionPort, true); err != nil {
		return 0, 0, err
	}
	n.mu.Lock()
	n.election[d] = loopback(election)
	n.mu.Unlock()
	return quorum, election, nil
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func (n *Network) listen(d direction, target int, election bool) (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("servers: proxy from server %d to %d: %w", d.from, d.to, err)
	}
	n.mu.Lock()
	n.listeners = append(n.listeners, l)
	n.mu.Unlock()
	n.running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n.running.Go(func() { n.pass(c, d, loopback(target), election) })
		}
	})
	return l.Addr().(*net.TCPAddr).Port, nil
}

// pass carries one connection from beginning to end.
func (n *Network) pass(c net.Conn, d direction, target string, election bool) {
	p := &passage{dial: d, ended: make(chan struct{})}
	defer n.forget(p)
	if !n.remember(p) || !p.add(c) {
		c.Close()
		return
	}
	forth, back := n.gate(d), n.gate(d.reversed())
	// A TCP handshake needs both directions.
	if !forth.wait(p.ended) || !back.wait(p.ended) {
		return
	}
	server, err := net.DialTimeout("tcp", target, dialWithin)
	if err != nil || !p.add(server) {
		p.close()
		return
	}
	first, err := n.first(c, d, election)
	if err != nil {
		p.close()
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.pump(server, c, forth, first) })
	both.Go(func() { p.pump(c, server, back, nil) })
	both.Wait()
}

// first reads the message that opens an election connection and replaces the address in it
// by the proxy for the opposite direction, because a server with a greater id calls back
// there. Other connections have no such message.
//
//	int64 version (below 0), int64 id, int32 length, address
func (n *Network) first(c net.Conn, d direction, election bool) ([]byte, error) {
	if !election {
		return nil, nil
	}
	head := make([]byte, 8, 20)
	if _, err := io.ReadFull(c, head); err != nil {
		return nil, err
	}
	if int64(binary.BigEndian.Uint64(head)) >= 0 {
		return head, nil // the oldest form: only the id
	}
	head = head[:20]
	if _, err := io.ReadFull(c, head[8:]); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(head[16:])
	if length > 2048 {
		return nil, fmt.Errorf("servers: address of %d bytes on an election port", length)
	}
	if _, err := io.CopyN(io.Discard, c, int64(length)); err != nil {
		return nil, err
	}
	n.mu.Lock()
	address := n.election[d.reversed()]
	n.mu.Unlock()
	binary.BigEndian.PutUint32(head[16:], uint32(len(address)))
	return append(head, address...), nil
}

func (n *Network) remember(p *passage) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.closed {
		n.open[p] = true
	}
	return !n.closed
}

func (n *Network) forget(p *passage) {
	p.close()
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.open, p)
}

// add adds a connection to the passage, which will close it; false if the passage is
// closed.
func (p *passage) add(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken {
		c.Close()
		return false
	}
	p.ends = append(p.ends, c)
	return true
}

// close ends the connection on both sides.
func (p *passage) close() {
	p.once.Do(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.broken = true
		close(p.ended)
		for _, c := range p.ends {
			c.Close()
		}
	})
}

// A chunk is bytes in flight that must not arrive before due.
type chunk struct {
	data []byte
	due  time.Time
}

// pump carries bytes through a gate until the connection ends, beginning with those that
// were read already. The end of the stream waits at the gate, too.
func (p *passage) pump(target, source net.Conn, g *gate, first []byte) {
	way := make(chan chunk, chunksMax)
	var reader sync.WaitGroup
	defer reader.Wait()
	defer p.close()
	reader.Go(func() {
		defer close(way)
		if len(first) > 0 {
			way <- chunk{first, time.Now().Add(g.slowness())}
		}
		for {
			buffer := make([]byte, chunkBytes)
			k, err := source.Read(buffer)
			if k > 0 {
				select {
				case way <- chunk{buffer[:k], time.Now().Add(g.slowness())}:
				case <-p.ended:
					return
				}
			}
			if err != nil {
				return
			}
		}
	})
	for c := range way {
		if !p.sleep(time.Until(c.due)) || !g.wait(p.ended) {
			return
		}
		if p.stranded.Load() {
			continue
		}
		g.count(len(c.data))
		if _, err := target.Write(c.data); err != nil {
			return
		}
	}
	g.wait(p.ended)
}

// sleep waits for the duration, or until the connection ends.
func (p *passage) sleep(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.ended:
		return false
	}
}

// A gate is one direction: open or shut, fast or slow.
type gate struct {
	mu     sync.Mutex
	shut   chan struct{} // nil if open; closed when it opens
	delay  time.Duration
	pieces int64 // pieces let through; a piece is the result of one read from the sender
	bytes  int64
}

func (n *Network) gate(d direction) *gate {
	n.mu.Lock()
	defer n.mu.Unlock()
	g := n.gates[d]
	if g == nil {
		g = &gate{}
		n.gates[d] = g
	}
	return g
}

// wait returns true when the gate is open, false if ended is closed first.
func (g *gate) wait(ended <-chan struct{}) bool {
	for {
		g.mu.Lock()
		shut := g.shut
		g.mu.Unlock()
		if shut == nil {
			return true
		}
		select {
		case <-shut:
		case <-ended:
			return false
		}
	}
}

func (g *gate) count(bytes int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pieces++
	g.bytes += int64(bytes)
}

func (g *gate) slowness() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.delay
}

// Cut lets nothing more through from one server to the other: bytes in flight are held
// back, and neither server can connect to the other, because a connection needs both
// directions. No connection is closed.
func (n *Network) Cut(from, to int) {
	g := n.gate(direction{from, to})
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut == nil {
		g.shut = make(chan struct{})
	}
}

// Delay delays everything from one server to the other.
func (n *Network) Delay(from, to int, by time.Duration) {
	g := n.gate(direction{from, to})
	g.mu.Lock()
	defer g.mu.Unlock()
	g.delay = by
}

// Reset closes all connections between two servers.
func (n *Network) Reset(a, b int) {
	for _, p := range n.passages() {
		if (p.dial == direction{a, b}) || (p.dial == direction{b, a}) {
			p.close()
		}
	}
}

// Strand lets the existing connections between two servers die silently: everything sent on
// them is lost, and none is closed. New ones work.
func (n *Network) Strand(a, b int) {
	for _, p := range n.passages() {
		if (p.dial == direction{a, b}) || (p.dial == direction{b, a}) {
			p.stranded.Store(true)
		}
	}
}

// Heal opens all directions and removes all delays. Bytes that were held back arrive.
func (n *Network) Heal() {
	n.mu.Lock()
	var gates []*gate
	for _, g := range n.gates {
		gates = append(gates, g)
	}
	n.mu.Unlock()
	for _, g := range gates {
		g.heal()
	}
}

// HealOne is Heal for one direction.
func (n *Network) HealOne(from, to int) { n.gate(direction{from, to}).heal() }

func (g *gate) heal() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.delay = 0
	if g.shut != nil {
		close(g.shut)
		g.shut = nil
	}
}

func (n *Network) passages() []*passage {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []*passage
	for p := range n.open {
		all = append(all, p)
	}
	return all
}

// close ends all connections and proxies, and waits for them.
func (n *Network) close() {
	n.mu.Lock()
	n.closed = true
	for _, l := range n.listeners {
		l.Close()
	}
	n.mu.Unlock()
	for _, p := range n.passages() {
		p.close()
	}
	n.running.Wait()
}
