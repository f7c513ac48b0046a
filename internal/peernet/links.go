package peernet

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conclave-project/conclave/internal/lobby"
	"github.com/conclave-project/conclave/internal/names"
	"github.com/conclave-project/conclave/internal/peerwire"
	"github.com/conclave-project/conclave/internal/zab"
)

// LinksOptions are what Links need.
type LinksOptions struct {
	Listener     net.Listener // of the quorum port
	Observers    net.Listener // of the port for observers; nil: there is none
	DataBytesMax int          // longest data of a packet; 0: peerwire.DataBytesMax
	// QueueBytesMax is how many bytes may wait on one link; if more wait, the link is closed
	// at once. Four times as many may wait behind a snapshot, and on all links together; if
	// more wait on all links, one link of the host for which most waits is closed. 0: 256
	// MiB. It must be larger than a DIFF, which is queued whole.
	QueueBytesMax int64
	// SilenceMax is how long a peer may take to send its first message, to receive
	// 64 KiB, and to receive everything after a Close. 0: 10 s.
	SilenceMax time.Duration
	Handler    Handler
	Hosts      HostsOf      // nil: anybody may act as any server
	Dial       DialFunc     // nil: package names' dialer
	Proofs     *Proofs      // nil: servers prove nothing
	Logger     *slog.Logger // nil: slog.Default
}

// Handler receives what happens on links. Each link has a goroutine that makes all
// its calls except Moves, one after the other; during a call nothing more is read
// from that link. A call may use Links, but not Shutdown.
type Handler interface {
	// Up reports a new link. An accepted connection is reported with its first message.
	Up(link zab.LinkID, origin Origin)
	// Down reports that a link is gone, or that the Connect with this number
	// failed. It is the last call for the link.
	Down(link zab.LinkID)
	// Receive takes all messages of one read, and may keep them. After Close it
	// gets at most what was already being received. An error ends the link.
	Receive(link zab.LinkID, batch []zab.Message) error
	// Snapshot reads the snapshot after a SNAP, which was the last message of a
	// batch, and not a byte more; see snap.LoadStream. The reader is buffered.
	// Packets continue when Snapshot returns; an error ends the link.
	Snapshot(link zab.LinkID, r io.Reader) error
	// Moves reports, at most ten times in SilenceMax, that a peer is receiving what waits
	// for it: packets, or a snapshot. Receiving all of it may take longer than a peer may be
	// silent. It is called by the goroutine that writes to the link.
	Moves(link zab.LinkID)
}

// Origin is where a link comes from.
type Origin uint8

// The origins.
const (
	Came          Origin = iota // it came to the quorum port
	CameToObserve               // it came to the port for observers
	Connected                   // made by Connect
)

// Links manages the connections between a learner and its leader, or an observer master in
// the leader's place, at either end. All methods are safe for concurrent use. What one
// goroutine sends on one link arrives in that order.
type Links struct {
	o      LinksOptions
	dialer dialer
	lobby  lobby.Lobby
	tasks  sync.WaitGroup
	done   context.Context
	end    context.CancelFunc

	refused refused  // connections that failed before their first message
	ended   refused  // links that ended after it
	dialed  struct { // why connections ended that this side dialed
		sync.Mutex
		failures
	}
	waiting atomic.Int64 // bytes waiting on all links

	mu struct {
		sync.Mutex
		closed  bool
		last    zab.LinkID // the last number assigned
		links   map[zab.LinkID]*link
		running map[*link]struct{} // all connections: links, and those that are not links yet or no longer
		dirty   []*link            // to be flushed
		spare   []*link            // memory for dirty
		dialing zab.LinkID         // the number of the link that Connect is dialing; 0: none
		cancel  context.CancelFunc
	}
}

// linksMax is how many accepted links there may be. An ensemble needs as many as
// it has servers.
const linksMax = 1024

// linksPerHostMax is how many of them may come from one address, so that a
// stranger cannot keep learners out. It is above the number of servers on one
// machine.
const linksPerHostMax = 64

// NewLinks returns Links that accept connections.
func NewLinks(o LinksOptions) *Links {
	o.DataBytesMax = cmp.Or(o.DataBytesMax, peerwire.DataBytesMax)
	o.QueueBytesMax = cmp.Or(o.QueueBytesMax, 256<<20)
	o.SilenceMax = cmp.Or(o.SilenceMax, 10*time.Second)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Dial == nil {
		o.Dial = names.System().DialContext
	}
	l := &Links{o: o}
	l.dialed.failures = failures{}
	l.done, l.end = context.WithCancel(context.Background())
	l.dialer = dialer{o.Dial, &l.tasks}
	l.mu.links = make(map[zab.LinkID]*link)
	l.mu.running = make(map[*link]struct{})
	l.tasks.Go(func() { accept(l.done, o.Listener, o.Logger, func(socket net.Conn) { l.welcome(socket, Came) }) })
	if o.Observers != nil {
		l.tasks.Go(func() {
			accept(l.done, o.Observers, o.Logger, func(socket net.Conn) { l.welcome(socket, CameToObserve) })
		})
	}
	return l
}

// Send queues a message on a link; Flush sends it. It never blocks. A link on
// which too much waits is closed. On a link that is closed or gone, Send does
// nothing.
func (l *Links) Send(id zab.LinkID, m *zab.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := l.mu.links[id]; k != nil && k.gather(m) && !k.dirty {
		k.dirty = true
		l.mu.dirty = append(l.mu.dirty, k)
	}
	l.relieve()
}

// queuesMax is how many times QueueBytesMax may wait on all links together.
const queuesMax = 4

// relieve closes links until no more bytes wait than allowed. A host that does not read,
// on however many links, cannot cause a learner on another host to be disconnected. Called
// with mu held.
func (l *Links) relieve() {
	for most := l.o.QueueBytesMax * queuesMax; l.waiting.Load() > most; {
		k, all := l.heaviest()
		if all <= most {
			return // something was sent meanwhile
		}
		k.disconnect()
	}
}

// heaviest returns the link on which most waits, of the host for which most waits, and
// how much waits on all links. Called with mu held.
func (l *Links) heaviest() (heaviest *link, all int64) {
	byLink, byHost := make(map[*link]int64), make(map[string]int64)
	for k := range l.mu.running {
		byLink[k] = k.waits()
		byHost[hostOf(k.socket)] += byLink[k]
		all += byLink[k]
	}
	for k, waits := range byLink {
		host := byHost[hostOf(k.socket)]
		if heaviest == nil || host > byHost[hostOf(heaviest.socket)] ||
			host == byHost[hostOf(heaviest.socket)] && waits > byLink[heaviest] {
			heaviest = k
		}
	}
	return heaviest, all
}

// SendSnapshot queues a snapshot and its end mark. A goroutine of the link calls
// write; an error closes the link. write is always called exactly once, so that
// it can release what it holds; if the link is gone, its writer fails.
func (l *Links) SendSnapshot(id zab.LinkID, write func(io.Writer) error) {
	if k := l.link(id); k != nil && k.gatherSnapshot(write) {
		k.flush()
	} else {
		_ = write(gone{})
	}
}

// AwaitSent waits until a link's socket has taken everything queued, or the link ends.
func (l *Links) AwaitSent(id zab.LinkID) {
	if k := l.link(id); k != nil {
		k.awaitSent()
	}
}

// Flush writes what was queued by Send: at once what the sockets take, and the
// rest in the background. Call it when nothing more is to be sent for the
// moment.
func (l *Links) Flush() {
	l.mu.Lock()
	dirty := l.mu.dirty
	l.mu.dirty, l.mu.spare = l.mu.spare, nil
	for _, k := range dirty {
		k.dirty = false
	}
	l.mu.Unlock()
	if len(dirty) == 0 {
		return
	}
	for _, k := range dirty {
		k.flush()
	}
	clear(dirty)
	l.mu.Lock()
	l.mu.spare = dirty[:0]
	l.mu.Unlock()
}

// Close ends a link when everything queued before is sent, after SilenceMax at the latest. If a snapshot is
// not sent yet, it ends the link at once. id may be the number of an unfinished Connect: then the attempt
// ends, without a call of Down.
func (l *Links) Close(id zab.LinkID) {
	l.mu.Lock()
	if id != 0 && id == l.mu.dialing {
		l.mu.cancel()
		l.mu.dialing = 0
	}
	k := l.mu.links[id]
	l.mu.Unlock()
	if k != nil {
		k.closeAfterQueue()
	}
}

// Shutdown ends all links at once and waits until they are gone. What is not
// sent yet is lost.
func (l *Links) Shutdown() {
	l.Cut()
	l.tasks.Wait()
}

// Cut is Shutdown without the wait: the handler may still be called for a
// while. Cut may be called again.
func (l *Links) Cut() {
	l.mu.Lock()
	l.mu.closed = true
	for k := range l.mu.running {
		k.cut()
	}
	l.mu.Unlock()
	l.end()
	l.o.Listener.Close()
	if l.o.Observers != nil {
		l.o.Observers.Close()
	}
	l.lobby.Close()
}

func (l *Links) link(id zab.LinkID) *link {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.links[id]
}

// welcome accepts a connection. It becomes a link with its first message.
func (l *Links) welcome(socket net.Conn, origin Origin) {
	if !l.lobby.Enter(bare(socket)) {
		socket.Close()
		return
	}
	l.tasks.Add(1)
	go func() {
		defer l.tasks.Done()
		defer l.lobby.Leave(bare(socket))
		admitted, err := l.o.Proofs.accepted(socket, time.Now().Add(l.o.SilenceMax))
		if err != nil {
			socket.Close()
			l.refused.log(l.o.Logger, slog.LevelInfo, "refuse a connection to the quorum port", socket, err)
			return
		}
		_ = socket.SetWriteDeadline(time.Time{})
		k := newLink(l, admitted, peerwire.FromLearner)
		k.origin = origin
		k.run()
	}()
}

// begin registers a connection until its end, for Shutdown.
func (l *Links) begin(k *link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.running[k] = struct{}{}
	if l.mu.closed {
		k.cut()
	}
}

func (l *Links) forget(k *link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.mu.running, k)
}

// enter makes an accepted connection a link, unless there are too many.
func (l *Links) enter(k *link) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed || len(l.mu.links) >= linksMax || l.from(hostOf(k.socket)) >= linksPerHostMax {
		return false
	}
	l.mu.last++
	k.id = l.mu.last
	l.mu.links[k.id] = k
	return true
}

// from counts the accepted links from a host. Called with mu held.
func (l *Links) from(host string) int {
	n := 0
	for _, k := range l.mu.links {
		if k.from == peerwire.FromLearner && hostOf(k.socket) == host {
			n++
		}
	}
	return n
}

func hostOf(socket net.Conn) string {
	host, _, _ := net.SplitHostPort(socket.RemoteAddr().String())
	return host
}

// Refuse logs why a link is closed.
func (l *Links) Refuse(id zab.LinkID, err error) {
	l.mu.Lock()
	k := l.mu.links[id]
	l.mu.Unlock()
	if k != nil {
		l.refused.log(l.o.Logger, slog.LevelError, "refuse a learner", k.socket, err)
	}
}

// leave forgets a link.
func (l *Links) leave(k *link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.mu.links, k.id)
}
