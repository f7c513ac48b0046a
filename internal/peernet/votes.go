package peernet

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/lobby"
	"github.com/conclave-project/conclave/internal/names"
	"github.com/conclave-project/conclave/internal/peerwire"
	"github.com/conclave-project/conclave/internal/quorum"
)

// VotesOptions are what Votes needs.
type VotesOptions struct {
	ID       quorum.ID // peerwire.NoID: an observer without a number
	Listener net.Listener
	// Advertise is where this server's election port can be dialed. If it is
	// empty, peers use the address in their configuration.
	Advertise []peerwire.Address
	// Addresses returns the addresses of a peer's election port, in the
	// configuration in force and in the proposed one. A server without an
	// address is a stranger. Any goroutine may call it; it must not call Votes.
	Addresses func(quorum.ID) []peerwire.Address
	// Receive takes a notification. Each connection's goroutine calls it, and
	// reads nothing meanwhile. It may call Send, but not Close.
	Receive func(from quorum.ID, n fle.Notification)
	// ConnectTimeout is how long a connection may take to open, to introduce
	// itself, and to take a message (cnxTimeout). 0: 5 s.
	ConnectTimeout time.Duration
	Dial           DialFunc     // nil: package names' dialer
	Proofs         *Proofs      // nil: servers prove nothing
	Hosts          HostsOf      // nil: anybody may act as any server
	Logger         *slog.Logger // nil: slog.Default
}

// Votes carries the notifications of elections. Strangers, which are servers
// outside the configuration, are received and answered, because a joining server
// must learn who leads. A stranger is dialed only if it dialed first, said where
// it listens, and has the smaller number, as the protocol requires.
//
// All methods may be called by any goroutine.
type Votes struct {
	o      VotesOptions
	dialer dialer
	lobby  lobby.Lobby
	tasks  sync.WaitGroup
	done   context.Context
	end    context.CancelFunc

	accepted int64 // connections so far; used only by the goroutine that accepts
	refused  refused

	mu struct {
		sync.Mutex
		closed    bool
		initial   []byte // the initial message of this server
		peers     map[quorum.ID]*votePeer
		strangers []*votePeer // peers without an address, oldest first
		unnamed   quorum.ID   // the last number assigned to an observer without one
	}
}

// votePeer is what is known about one server and what waits for it. It is
// guarded by Votes.mu.
type votePeer struct {
	id         quorum.ID
	addresses  []peerwire.Address // of the configuration; none: a stranger
	advertised []peerwire.Address // where it said it listens, as far as that can be dialed from here
	conn       *voteConn          // nil: not connected
	unsent     []byte             // the newest frame, until a writer takes it
	sent       time.Time          // when a writer last took a frame
	untold     bool               // this server has moved since the connection began
	last       []byte             // the frame that a writer took last
	// place is the position, among all accepted connections, of the newest one
	// that the peer opened. Their goroutines may run in another order, and an
	// older connection, which the peer has closed, must not replace the newer
	// one.
	place int64

	next    approach
	dialing bool // a goroutine is trying to connect; there is at most one
	gone    bool // no longer in Votes.mu.peers
	wake    chan struct{}
	abandon context.CancelFunc // ends the current attempt; nil: there is none

	receiving sync.Mutex // not guarded by Votes.mu: held while Receive lasts
}

// strangersMax is how many strangers are known at a time; one more takes the
// place of the oldest.
const strangersMax = 64

// NewVotes returns Votes that accept connections.
func NewVotes(o VotesOptions) (*Votes, error) {
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, 5*time.Second)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Dial == nil {
		o.Dial = names.System().DialContext
	}
	v := &Votes{o: o}
	if err := v.Advertise(o.Advertise); err != nil {
		return nil, err
	}
	v.done, v.end = context.WithCancel(context.Background())
	v.dialer = dialer{o.Dial, &v.tasks}
	v.mu.peers = make(map[quorum.ID]*votePeer)
	v.tasks.Add(1)
	go func() {
		defer v.tasks.Done()
		accept(v.done, o.Listener, o.Logger, v.welcome)
	}()
	return v, nil
}

// Advertise changes the addresses of the election port that this server advertises on
// later connections.
func (v *Votes) Advertise(addresses []peerwire.Address) error {
	initial, err := appendInitial(peerwire.Initial{Server: v.o.ID, Addresses: addresses})
	if err != nil {
		return fmt.Errorf("election port: %w", err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	moved := v.mu.initial != nil && !bytes.Equal(v.mu.initial, initial)
	v.mu.initial = initial
	if moved {
		v.sayAgain()
	}
	return nil
}

// sayAgain sends the newest message again to peers that are away: when they are back they
// cannot know where to dial. A peer with a connection may be away as well, see lost. Called
// with mu held.
func (v *Votes) sayAgain() {
	for _, p := range v.mu.peers {
		switch {
		case p.conn != nil:
			p.untold = true
		case p.unsent == nil:
			p.unsent = p.last
			v.push(p)
		}
	}
}

// Send makes n the message that waits for a server, and replaces an older one
// that is not sent yet. While a message waits, the server is dialed if there is
// no connection. Send never blocks. Messages to this server itself, or to a
// stranger that is not connected, are dropped.
func (v *Votes) Send(to quorum.ID, n fle.Notification) {
	if to == v.o.ID {
		return
	}
	frame := peerwire.AppendNotification(nil, &n)
	addresses := v.o.Addresses(to)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.mu.closed || v.mu.peers[to] == nil && len(addresses) == 0 {
		return
	}
	p := v.meet(to, addresses)
	p.unsent = frame
	v.push(p)
}

// Reconfigured closes the connections to servers whose address changed or that
// left. Call it when the result of Addresses has changed.
func (v *Votes) Reconfigured() {
	for _, id := range v.ids() {
		addresses := v.o.Addresses(id)
		v.mu.Lock()
		if p := v.mu.peers[id]; p != nil && !slices.Equal(p.addresses, addresses) {
			v.moved(p, addresses)
		}
		v.mu.Unlock()
	}
}

// Close ends all connections and drops waiting messages. Receive must not call
// it.
func (v *Votes) Close() {
	v.mu.Lock()
	v.mu.closed = true
	for _, p := range v.mu.peers {
		p.disconnect()
	}
	v.mu.Unlock()
	v.end()
	v.o.Listener.Close()
	v.lobby.Close()
	v.tasks.Wait()
}

func (v *Votes) ids() []quorum.ID {
	v.mu.Lock()
	defer v.mu.Unlock()
	ids := make([]quorum.ID, 0, len(v.mu.peers))
	for id := range v.mu.peers {
		ids = append(ids, id)
	}
	return ids
}

// meet returns the peer with a number; an observer without a number is a new
// peer each time. Called with mu held.
func (v *Votes) meet(id quorum.ID, addresses []peerwire.Address) *votePeer {
	if id == peerwire.NoID {
		v.mu.unnamed--
		id = v.mu.unnamed
	}
	p := v.mu.peers[id]
	switch {
	case p == nil:
		return v.enroll(id, addresses)
	case len(p.addresses) == 0 && len(addresses) > 0:
		v.estranged(p)
		p.addresses = addresses
		v.joined(p)
	}
	return p
}

// enroll adds a server to the known peers. Called with mu held.
func (v *Votes) enroll(id quorum.ID, addresses []peerwire.Address) *votePeer {
	p := &votePeer{id: id, addresses: addresses, wake: make(chan struct{}, 1)}
	v.mu.peers[id] = p
	if len(addresses) == 0 {
		if len(v.mu.strangers) >= strangersMax {
			v.forget(v.mu.strangers[0])
		}
		v.mu.strangers = append(v.mu.strangers, p)
	}
	return p
}

// forget removes a server, with its connection and its dial attempt. Called with mu held.
func (v *Votes) forget(p *votePeer) {
	p.gone = true
	p.disconnect()
	p.stopDialing()
	delete(v.mu.peers, p.id)
	v.estranged(p)
}

// estranged removes p from the list of strangers. Called with mu held.
func (v *Votes) estranged(p *votePeer) {
	v.mu.strangers = slices.DeleteFunc(v.mu.strangers, func(q *votePeer) bool { return q == p })
}

// moved applies the addresses of a changed configuration to p. Called with mu held.
func (v *Votes) moved(p *votePeer, addresses []peerwire.Address) {
	switch {
	case len(addresses) == 0:
		v.forget(p)
		return
	case len(p.addresses) == 0:
		v.meet(p.id, addresses)
	default:
		p.disconnect()
		p.stopDialing()
		p.advertised = nil
	}
	p.addresses = addresses
	v.push(p)
}

// push makes sure that what waits for p is sent. Called with mu held.
func (v *Votes) push(p *votePeer) {
	if v.mu.closed || p.gone {
		return
	}
	if p.conn != nil {
		poke(p.conn.ready)
	}
	if !p.dialing && p.wantsDial() {
		p.dialing = true
		v.tasks.Add(1)
		go v.dial(p)
	}
}

// wantsDial reports whether p is to be dialed. Called with mu held.
func (p *votePeer) wantsDial() bool {
	return !p.gone && (p.next.called || p.conn == nil && p.unsent != nil && len(p.addresses) > 0)
}

// disconnect ends the connection. Called with mu held.
func (p *votePeer) disconnect() {
	if p.conn != nil {
		p.conn.close()
		p.conn = nil
	}
}

// stopDialing ends the current attempt. Called with mu held.
func (p *votePeer) stopDialing() {
	if p.abandon != nil {
		p.abandon()
	}
	poke(p.wake)
}

// poke puts a token into a channel of capacity one.
func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
