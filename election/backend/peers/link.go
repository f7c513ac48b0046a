package peers

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/internal/lobby"
)

// link is the connection to another member; all elections share it.
type link struct {
	peer  algo.ID
	birth string // of the member's directory
	conn  net.Conn
	writer
	queue  chan [][]byte // frames to be written, one element per flush
	behind atomic.Int64  // bytes in the queue, without the element that is being written
	ending atomic.Bool   // Close waits until the queue is written
	closed chan struct{}
	once   sync.Once
}

// queueMax and queueBytesMax bound what waits to be written to a member. One element of the
// queue has the frames of all elections from one flush. A single element may be of any
// size: a member that has just connected gets everything at once, and would otherwise be
// disconnected each time.
const (
	queueMax      = 256
	queueBytesMax = 64 << 20
)

// close ends the connection, for any reason.
func (l *link) close() {
	l.once.Do(func() {
		close(l.closed)
		_ = l.conn.Close()
	})
}

// note adds a note to what the next flush sends.
func (l *link) note(name string, n note) {
	if text, err := json.Marshal(n); err == nil {
		l.json(itemNote, name, text)
	}
}

// flush queues what was collected, and disconnects a member that does not read (peers-P6).
func (l *link) flush() {
	frames := l.frames()
	if len(frames) == 0 {
		return
	}
	size := bytesOf(frames)
	if behind := l.behind.Add(size); behind > size && behind > queueBytesMax {
		l.close()
		return
	}
	select {
	case l.queue <- frames:
	default:
		l.close()
	}
}

// bytesOf returns the total size of the frames.
func bytesOf(frames [][]byte) (size int64) {
	for _, frame := range frames {
		size += int64(len(frame))
	}
	return size
}

// drainMax is how long Close waits for a member to read what is queued.
const drainMax = 500 * time.Millisecond

// finish lets the queue be written and then ends the connection.
func (l *link) finish() {
	l.ending.Store(true)
	_ = l.conn.SetWriteDeadline(time.Now().Add(drainMax))
	select {
	case l.queue <- nil:
	default:
		l.close()
	}
}

// write writes the queued frames, with heartbeats in between, until the link ends.
func (l *link) write(pause time.Duration) {
	defer l.close()
	idle := time.NewTicker(pause)
	defer idle.Stop()
	for {
		frames := [][]byte{{0, 0, 0, 0}}
		select {
		case frames = <-l.queue:
			l.behind.Add(-bytesOf(frames))
		case <-idle.C:
		case <-l.closed:
			return
		}
		if frames == nil {
			return
		}
		for _, frame := range frames {
			if l.ending.Load() {
				pause = drainMax
			}
			_ = l.conn.SetWriteDeadline(time.Now().Add(4 * pause))
			if _, err := l.conn.Write(frame); err != nil {
				return
			}
		}
		idle.Reset(pause)
	}
}

// read passes frames to the loop until the link ends, and returns why it ended.
func (b *Backend) read(l *link, r *bufio.Reader) error {
	var d decoder
	for {
		_ = l.conn.SetReadDeadline(time.Now().Add(4 * b.pause()))
		body, err := readFrame(r, frameBytesMax)
		if err != nil {
			return err
		}
		items, err := d.decode(body)
		if err != nil {
			return err
		}
		if len(items) > 0 && !b.post(func() { b.receive(l, items) }) {
			return ErrClosed
		}
	}
}

// pause is the silence after which a heartbeat is due.
func (b *Backend) pause() time.Duration { return max(b.options.Lease/2, 100*time.Millisecond) }

// serve runs a connection until it ends. It calls greeted when it knows which member is at
// the other end, or that no member is.
func (b *Backend) serve(conn net.Conn, dialed algo.ID, greeted func()) error {
	raw := conn
	stop := context.AfterFunc(b.life, func() { _ = raw.SetReadDeadline(time.Now()) })
	defer stop()
	defer raw.Close()
	_ = conn.SetDeadline(time.Now().Add(max(b.options.Lease, time.Second)))
	conn, r, peer, err := b.introduce(conn, dialed)
	greeted()
	if err != nil || peer.Knock {
		return err
	}
	_ = conn.SetDeadline(time.Time{})
	l := &link{peer: peer.From, birth: peer.Birth, conn: conn, queue: make(chan [][]byte, queueMax), closed: make(chan struct{}),
		writer: writer{numbers: make(map[string]uint64)}}
	if err := b.call(b.life, func() { b.attach(l) }); err != nil {
		return err
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		l.write(b.pause())
	}()
	err = b.read(l, r)
	if b.life.Err() != nil {
		<-written // let the queue be written
	}
	l.close()
	<-written
	b.post(func() { b.detach(l, err) })
	return err
}

// introduce secures a connection and finds out which member is at the other end.
func (b *Backend) introduce(conn net.Conn, dialed algo.ID) (net.Conn, *bufio.Reader, hello, error) {
	conn, err := b.secure(conn, dialed)
	if err != nil {
		return conn, nil, hello{}, err
	}
	r := bufio.NewReader(conn)
	peer, err := b.greet(conn, r, dialed)
	return conn, r, peer, err
}

// secure puts TLS around the connection. A member that dials requires a certificate for the
// id that it dials.
func (b *Backend) secure(conn net.Conn, dialed algo.ID) (net.Conn, error) {
	if b.options.TLS == nil {
		return conn, nil
	}
	var secured *tls.Conn
	if dialed == "" {
		secured = tls.Server(conn, b.options.TLS)
	} else {
		config := b.options.TLS.Clone()
		config.ServerName = string(dialed)
		secured = tls.Client(conn, config)
	}
	return secured, secured.HandshakeContext(b.life)
}

// greet exchanges hellos and verdicts. It returns the hello of the other side.
func (b *Backend) greet(conn net.Conn, r *bufio.Reader, dialed algo.ID) (hello, error) {
	if dialed != "" {
		if err := b.introduceTo(dialed, conn, false); err != nil {
			return hello{}, err
		}
	}
	var theirs hello
	if err := readJSON(r, &theirs); err != nil {
		return theirs, err
	}
	if theirs.Knock {
		b.kick(theirs.From)
		return theirs, nil
	}
	if dialed == "" {
		if err := b.introduceTo(theirs.From, conn, false); err != nil {
			return theirs, err
		}
	}
	refused := b.judge(conn, theirs, dialed)
	v := verdict{}
	if refused != nil {
		v.Refused, v.Lost = shortened(refused.Error()), errors.Is(refused, errReplaced)
	}
	if err := writeJSON(conn, v); err != nil {
		return theirs, err
	}
	var answer verdict
	if err := readJSON(r, &answer); err != nil {
		return theirs, errors.Join(refused, err)
	}
	if answer.Lost && identified(refused) {
		_ = b.call(b.life, func() { b.replaced(theirs.From) })
	}
	if answer.Refused != "" {
		return theirs, errors.Join(refused, fmt.Errorf("%s refuses this member: %s", theirs.From, answer.Refused))
	}
	return theirs, refused
}

// identified reports whether the other side is the member that it claims to be, as far as
// this can be found out from the error of judge: judge checks the directory last, after the
// settings and the certificate.
func identified(refused error) bool {
	return refused == nil || errors.Is(refused, errReplaced) || errors.Is(refused, errTwice)
}

// helloBytesMax bounds what is read from an unidentified sender. The ids of all members may
// take membersBytesMax of it; the rest is for two ids, numbers and names.
const (
	helloBytesMax   = 128 << 10
	membersBytesMax = helloBytesMax - 8<<10
)

func readJSON(r *bufio.Reader, value any) error {
	body, err := readFrame(r, helloBytesMax)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, value); err != nil {
		return fmt.Errorf("%w: %w", errFrame, err)
	}
	return nil
}

// hello returns the introduction of this member as it is now.
func (b *Backend) hello(to algo.ID) (h hello, err error) {
	err = b.call(b.life, func() {
		h = hello{Protocol: protocol, From: b.options.ID, To: to, Members: b.options.ids(), Algorithm: b.algorithm.Name,
			LeaseMs: b.leaseMs, After: b.head.After, Birth: b.head.Birth, Fresh: b.entry != nil}
	})
	return h, err
}

// introduceTo sends the hello.
func (b *Backend) introduceTo(to algo.ID, conn net.Conn, knock bool) error {
	h, err := b.hello(to)
	if err != nil {
		return err
	}
	h.Knock = knock
	return writeJSON(conn, h)
}

// judge returns why the other side is refused, nil if it is accepted. It checks the
// directory last; see identified.
func (b *Backend) judge(conn net.Conn, h hello, dialed algo.ID) error {
	switch {
	case h.Protocol != protocol:
		return fmt.Errorf("it speaks %q, not %q", h.Protocol, protocol)
	case h.To != b.options.ID:
		return fmt.Errorf("it wants %q, this is %q", h.To, b.options.ID)
	case dialed != "" && h.From != dialed:
		return fmt.Errorf("it is %q, and should be %q", h.From, dialed)
	case h.From == b.options.ID || !slices.Contains(b.options.ids(), h.From):
		return fmt.Errorf("%q is no other member", h.From)
	case !slices.Equal(h.Members, b.options.ids()):
		return fmt.Errorf("its members are %v, not %v", h.Members, b.options.ids())
	case h.After != b.head.After:
		return fmt.Errorf("its tokens are after %d, not after %d", h.After, b.head.After)
	case h.Algorithm != b.algorithm.Name || h.LeaseMs != b.leaseMs:
		return fmt.Errorf("it has %s with a lease of %d ms, not %s with %d ms", h.Algorithm, h.LeaseMs,
			b.algorithm.Name, b.leaseMs)
	}
	if secured, ok := conn.(*tls.Conn); ok && dialed == "" {
		certificates := secured.ConnectionState().PeerCertificates
		if len(certificates) == 0 {
			return errors.New("it shows no certificate")
		}
		if err := certificates[0].VerifyHostname(string(h.From)); err != nil {
			return err
		}
	}
	var known <-chan struct{}
	var refused error
	if err := b.call(b.life, func() { known, refused = b.recognize(h) }); err != nil || refused != nil {
		return errors.Join(err, refused)
	}
	select {
	case <-known:
		return nil
	case <-b.done:
		return b.err
	}
}

// recognize refuses a directory that another one has replaced (peers-P3). It accepts a new
// directory only from a member that has no memory and is not already connected. The channel
// is closed when this is on disk; nothing else is sent to the member before that.
func (b *Backend) recognize(h hello) (<-chan struct{}, error) {
	known, met := b.head.Births[h.From]
	switch another := met && known != h.Birth; {
	case !b.algorithm.Exclusive, met && !another:
		at := make(chan struct{})
		close(at)
		return at, nil
	case another && !h.Fresh:
		return nil, fmt.Errorf("%s %w", h.From, errReplaced)
	case another && b.links[h.From] != nil:
		return nil, fmt.Errorf("%s %w", h.From, errTwice)
	}
	return b.afterSave(func(head *state) { head.Births[h.From] = h.Birth }), nil
}

// attach puts a link into use, in place of an older one.
func (b *Backend) attach(l *link) {
	if b.algorithm.Exclusive && b.head.Births[l.peer] != l.birth {
		l.close() // another directory has come since it was accepted
		return
	}
	if old := b.links[l.peer]; old != nil {
		old.close()
	}
	b.links[l.peer] = l
	b.meet(l.peer)
	delete(b.broken, l.peer)
	b.try(l.peer)
	b.say("connected to %s", l.peer)
	for _, c := range b.contests {
		c.tellNew(l)
		c.look() // Acquire or Observe may wait for a quorum
	}
}

// try records that a member is connected, or does not answer.
func (b *Backend) try(id algo.ID) {
	b.tried[id] = true
	if len(b.tried) == len(b.options.Members)-1 {
		b.join()
	}
}

// join lets this member announce its candidates. Otherwise a leader that it has not met yet
// could step down without knowing them.
func (b *Backend) join() {
	if b.joined {
		return
	}
	b.joined = true
	b.look()
}

// look updates all contests, because what this member says about itself has changed.
func (b *Backend) look() {
	for _, c := range b.contests {
		c.look()
	}
}

// missed records why there is no connection to a member.
func (b *Backend) missed(id algo.ID, err error) {
	before := b.broken[id]
	if b.broken[id] = err.Error(); b.entry != nil && before != b.broken[id] {
		b.look() // the reason why this newcomer waits has changed
	}
}

// detach removes a link that has ended, and what its member has said about candidates.
func (b *Backend) detach(l *link, err error) {
	if b.links[l.peer] != l {
		return
	}
	delete(b.links, l.peer)
	b.part(l.peer)
	b.broken[l.peer] = fmt.Sprint(err)
	b.say("lost %s: %v", l.peer, err)
	b.kick(l.peer)
	for _, c := range b.contests {
		c.receive(l.peer, nil)
		c.look()
	}
}

// accept accepts the connections of other members.
func (b *Backend) accept() {
	var strangers lobby.Lobby
	for {
		conn, err := b.listener.Accept()
		if errors.Is(err, net.ErrClosed) || b.life.Err() != nil {
			return
		}
		if err != nil {
			b.sleep(50 * time.Millisecond) // for instance, no file descriptors are left
			continue
		}
		if b.cut.Load() {
			_ = conn.Close()
			continue
		}
		if !strangers.Enter(conn) {
			_ = conn.Close()
			continue
		}
		b.workers.Go(func() {
			if err := b.serve(conn, "", func() { strangers.Leave(conn) }); err != nil {
				b.say("connection from %s: %v", conn.RemoteAddr(), err)
			}
		})
	}
}

// keepLink keeps connecting to a member. Of two members, the one with the lower id dials;
// the other one knocks, so that it need not wait for the next attempt.
func (b *Backend) keepLink(m Member) {
	pauseMax := min(max(b.options.Lease/4, 50*time.Millisecond), time.Second)
	pauseMin := pauseMax / 8
	pause := pauseMin
	for b.life.Err() == nil {
		linked, err := b.connect(m)
		if err != nil {
			b.post(func() {
				if b.links[m.ID] == nil {
					b.missed(m.ID, err)
					b.try(m.ID)
				}
			})
		}
		var again <-chan time.Time // the end of a link kicks
		if linked {
			pause = pauseMin
		} else {
			again = time.After(pause)
			pause = min(2*pause, pauseMax)
		}
		select {
		case <-b.kicks[m.ID]:
		case <-again:
		case <-b.life.Done():
		}
	}
}

// connect dials and serves the connection, or knocks if the other member is the one that
// dials. It reports whether a link already exists.
func (b *Backend) connect(m Member) (linked bool, err error) {
	if b.cut.Load() {
		return false, errors.New("cut")
	}
	if err := b.call(b.life, func() { linked = b.links[m.ID] != nil }); err != nil || linked {
		return linked, err
	}
	ctx, cancel := context.WithTimeout(b.life, max(b.options.Lease, time.Second))
	conn, err := b.dial(ctx, "tcp", m.Addr)
	cancel()
	if err != nil {
		return false, err
	}
	if b.options.ID < m.ID {
		return false, b.serve(conn, m.ID, func() {})
	}
	return false, b.knock(conn, m.ID)
}

func (b *Backend) knock(conn net.Conn, id algo.ID) error {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(max(b.options.Lease, time.Second)))
	conn, err := b.secure(conn, id)
	if err != nil {
		return err
	}
	return b.introduceTo(id, conn, true)
}

// kick makes keepLink try again at once.
func (b *Backend) kick(id algo.ID) {
	select {
	case b.kicks[id] <- struct{}{}:
	default: // no such member, or already kicked
	}
}

func (b *Backend) sleep(d time.Duration) {
	select {
	case <-time.After(d):
	case <-b.life.Done():
	}
}
