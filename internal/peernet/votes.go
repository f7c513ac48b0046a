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
	// Advertise is where this server's election port can be dialed. Without
	// one the peers go by their configuration.
	Advertise []peerwire.Address
	// Addresses tells where a peer's election port is, in the configuration in
	// force and in the proposed one. A server without an address is a stranger.
	// It is called by any goroutine, and must not call Votes.
	Addresses func(quorum.ID) []peerwire.Address
	// Receive takes a notification. Each connection's goroutine calls it, and
	// reads no further meanwhile. It may call Send, not Close.
	Receive func(from quorum.ID, n fle.Notification)
	// ConnectTimeout is how long a connection may take to be opened, to say who
	// it is, and to take a message (cnxTimeout). 0: 5 s.
	ConnectTimeout time.Duration
	Dial           DialFunc     // nil: that of package names
	Proofs         *Proofs      // nil: servers prove nothing
	Hosts          HostsOf      // nil: anybody acts as any server
	Logger         *slog.Logger // nil: slog.Default
}

// Votes carries the notifications of elections. Strangers, servers that are not
// in the configuration, are received and answered, for one that joins must learn
// who leads; but none is dialed unless it dialed first, said where it listens and
// has the smaller number, when the protocol asks for it.
//
// All methods may be called by any goroutine.
type Votes struct {
	o      VotesOptions
	dialer dialer
	lobby  lobby.Lobby
	tasks  sync.WaitGroup
	done   context.Context
	end    context.CancelFunc

	accepted int64 // connections so far; of the goroutine that accepts
	refused  refused

	mu struct {
		sync.Mutex
		closed    bool
		initial   []byte // what this server says first on a connection
		peers     map[quorum.ID]*votePeer
		strangers []*votePeer // those of peers that have no address, oldest first
		unnamed   quorum.ID   // given last to an observer without a number
	}
}

// votePeer is what is known of one server and waits for it. It is guarded by
// Votes.mu.
type votePeer struct {
	id         quorum.ID
	addresses  []peerwire.Address // of the configuration; none: a stranger
	advertised []peerwire.Address // where it said it listens, as far as that leads to it
	conn       *voteConn          // nil: not connected
	unsent     []byte             // the newest frame, until a writer takes it
	sent       time.Time          // when one took it last
	untold     bool               // this server has moved since the connection began
	last       []byte             // the frame that a writer took last
	// place is that of the newest connection it opened among all accepted.
	// Their goroutines may come in another order, and the older one, which the
	// peer has closed, must not replace the newer one.
	place int64

	next    approach
	dialing bool // a goroutine tries to connect, one at most
	gone    bool // not in Votes.mu.peers any more
	wake    chan struct{}
	abandon context.CancelFunc // ends the attempt under way; nil: there is none

	receiving sync.Mutex // not guarded by Votes.mu: held while Receive lasts
}

// strangersMax is how many strangers are known at a time; one more takes the
// place of the oldest.
const strangersMax = 64

// NewVotes begins to listen.
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

// Advertise changes where this server says, from the next connection on, that its election
// port can be dialed.
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

// sayAgain has the newest message said again to those that are away: they cannot know where to
// dial when they are back. One that is connected may be away as well, see lost. Called with mu
// held.
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

// Send makes n the message that waits for a server, in the place of an older
// one that has not left yet, and sees to it that a connection exists: as long as
// it waits, the server is dialed. It never blocks. What goes to this server
// itself or to a stranger that is not connected is dropped.
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

// Reconfigured drops the connections to servers whose address is not what it
// was, or one that left. Call it when Addresses tells something new.
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

// Close ends all connections, with what waits for them. It must not be called by
// Receive.
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

// meet returns the peer of a number; an observer without one is new each time.
// Called with mu held.
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

// enroll begins to know a server. Called with mu held.
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

// forget ends all that has to do with a server. Called with mu held.
func (v *Votes) forget(p *votePeer) {
	p.gone = true
	p.disconnect()
	p.stopDialing()
	delete(v.mu.peers, p.id)
	v.estranged(p)
}

// estranged takes p out of the list of strangers. Called with mu held.
func (v *Votes) estranged(p *votePeer) {
	v.mu.strangers = slices.DeleteFunc(v.mu.strangers, func(q *votePeer) bool { return q == p })
}

// moved makes p go by what the configuration has become. Called with mu held.
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

// push has what waits for p sent. Called with mu held.
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

// stopDialing ends the attempt under way. Called with mu held.
func (p *votePeer) stopDialing() {
	if p.abandon != nil {
		p.abandon()
	}
	poke(p.wake)
}

// poke leaves a token in a channel that holds one.
func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
