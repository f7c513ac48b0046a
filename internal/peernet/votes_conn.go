package peernet

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/jute"
	"github.com/conclave-project/conclave/internal/peerwire"
)

// voteConn is one connection, after the initial message. A goroutine reads it
// and another writes it; the first to fail ends it.
type voteConn struct {
	socket net.Conn
	peer   *votePeer
	ready  chan struct{} // holds a token when there may be something to write
	done   context.Context
	end    context.CancelFunc
	spoke  atomic.Bool // the peer has sent something on it
	answer bool        // opened to dial back a peer that had dialed
	dialed string      // the host that was dialed; "": the other end has dialed
}

func (c *voteConn) close() {
	c.end()
	bare(c.socket).Close()
}

// welcome accepts a connection and reads who the other end is.
func (v *Votes) welcome(socket net.Conn) {
	if !v.lobby.Enter(bare(socket)) {
		socket.Close()
		return
	}
	v.accepted++
	place := v.accepted
	v.tasks.Add(1)
	go func() {
		defer v.tasks.Done()
		_ = socket.SetReadDeadline(time.Now().Add(v.o.ConnectTimeout))
		in, err := readInitial(socket)
		admitted := socket
		if err == nil {
			admitted, err = v.o.Proofs.accepted(socket, time.Now().Add(v.o.ConnectTimeout))
		}
		v.lobby.Leave(bare(socket))
		if err == nil {
			err = v.introduced(admitted, in, place)
		}
		if err != nil {
			socket.Close()
			v.turnedAway(socket, err)
		}
	}()
}

// turnedAway logs a failed connection. It logs at debug level if nothing was sent,
// which may be a check whether the port is open, or if the connection came too late,
// because its peer has a better one.
func (v *Votes) turnedAway(socket net.Conn, err error) {
	silent := []error{io.EOF, syscall.ECONNRESET, errStale, errClosed, errJudgedBefore, net.ErrClosed}
	if slices.ContainsFunc(silent, func(one error) bool { return errors.Is(err, one) }) {
		v.o.Logger.Debug(refuses, slog.Any("remote", socket.RemoteAddr()), slog.Any("error", err))
		return
	}
	v.refused.log(v.o.Logger, slog.LevelWarn, refuses, socket, err)
}

const refuses = "refuse a connection to the election port"

var (
	errSpeaksTLS = errors.New("it speaks TLS, and this port does not: sslQuorum is not the same on all servers")

	errNegative = errors.New("peernet: a negative server number")
	errClosed   = errors.New("peernet: closed")
	errStale    = errors.New("peernet: the peer has a newer connection")

	errJudgedBefore = errors.New("peernet: the configuration has changed since the peer was checked; it connects again")
)

// introduced carries out the verdict on an accepted connection; place is its
// position among all accepted ones. The connection is kept or closed, unless
// there is an error.
func (v *Votes) introduced(socket net.Conn, in peerwire.Initial, place int64) error {
	if err := socket.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	switch {
	case in.Server < 0:
		return errNegative
	case uint64(in.Server)>>48 == 0x1603: // the beginning of a ClientHello
		return errSpeaksTLS
	}
	verdict := peerwire.Accepted(v.o.ID, in.Server)
	if verdict == peerwire.SameNumber {
		socket.Close()
		v.refused.log(v.o.Logger, slog.LevelWarn, "end a connection to the election port", socket,
			fmt.Errorf("a peer has the number %d of this server: two servers of an ensemble must not have the same myid", v.o.ID))
		return nil
	}
	addresses := v.o.Addresses(in.Server)
	if err := v.o.Hosts.acts(socket, in.Server); err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.mu.closed {
		return errClosed
	}
	if !slices.Equal(addresses, v.o.Addresses(in.Server)) {
		return errJudgedBefore
	}
	p := v.meet(in.Server, addresses)
	if place < p.place {
		return errStale
	}
	p.place = place
	if len(in.Addresses) > 0 {
		p.advertised = from(socket.RemoteAddr(), in.Addresses)
	}
	if verdict == peerwire.Keep {
		v.adopt(p, socket, "")
		return nil
	}
	socket.Close()
	v.callBack(p)
	return nil
}

// from returns the addresses that a peer advertises in a form that can be dialed from
// here: an address that means the peer's own machine, such as localhost, is replaced by
// the source of its connection.
func from(remote net.Addr, advertised []peerwire.Address) []peerwire.Address {
	host, _, err := net.SplitHostPort(remote.String())
	if err != nil {
		return advertised
	}
	advertised = slices.Clone(advertised)
	for i := range advertised {
		if advertised[i].Local() {
			advertised[i].Host = host
		}
	}
	return advertised
}

// callBack dials a peer that dialed. In most cases the peer has lost its end of the existing
// connection, or does not know about it yet. That connection stays until the new one replaces
// it. If it were closed now, a peer that has learned about it meanwhile would dial again and be
// called back again, for ever if opening a connection takes time. Called with mu held.
func (v *Votes) callBack(p *votePeer) {
	if p.conn != nil && p.conn.answer && !p.conn.spoke.Load() {
		p.next.failed = true // it dials again, so it is not where it was dialed back
	}
	if len(p.addresses) == 0 && len(p.advertised) == 0 {
		p.disconnect()
		if !p.dialing {
			v.forget(p)
		}
		return
	}
	p.next.called = true
	poke(p.wake)
	v.push(p)
}

// adopt makes a connection the connection of p. It begins with the newest message, even if that
// was sent before (peernet-N2). dialed is the host if this server dialed. Called with mu held.
func (v *Votes) adopt(p *votePeer, socket net.Conn, dialed string) {
	p.disconnect()
	endUnacknowledged(socket, v.o.ConnectTimeout)
	c := &voteConn{socket: socket, peer: p, answer: p.next.answers, dialed: dialed, ready: make(chan struct{}, 1)}
	c.done, c.end = context.WithCancel(v.done)
	p.conn, p.untold = c, false
	p.next.connected()
	if p.abandon != nil && peerwire.Connected(v.o.ID, p.id) == peerwire.CloseAndWait {
		// If the attempt introduced this server now, the peer would dial back in vain, and a
		// server of Apache's would end this connection first.
		p.abandon()
	}
	if p.unsent == nil {
		p.unsent = p.last
	}
	poke(p.wake)
	v.tasks.Add(2)
	go v.read(c)
	go v.write(c)
}

// write sends waiting messages to the peer until the connection ends.
func (v *Votes) write(c *voteConn) {
	defer v.tasks.Done()
	for {
		frame := v.take(c)
		if frame == nil {
			select {
			case <-c.ready:
				continue
			case <-c.done.Done():
				return
			}
		}
		_ = c.socket.SetWriteDeadline(time.Now().Add(v.o.ConnectTimeout))
		if _, err := c.socket.Write(frame); err != nil {
			v.lost(c, true)
			return
		}
	}
}

// take returns the frame that the connection is to send, nil if there is none.
func (v *Votes) take(c *voteConn) []byte {
	v.mu.Lock()
	defer v.mu.Unlock()
	p := c.peer
	if p.conn != c || p.unsent == nil {
		return nil
	}
	p.last, p.unsent, p.sent = p.unsent, nil, time.Now()
	return p.last
}

// read hands over notifications until the connection ends. The peer may be
// silent for any time.
func (v *Votes) read(c *voteConn) {
	defer v.tasks.Done()
	defer v.lost(c, false)
	r := bufio.NewReaderSize(c.socket, 4<<10)
	var frame []byte
	for {
		var err error
		if frame, err = readFrame(r, frame[:0]); err != nil {
			if errors.Is(err, peerwire.ErrElectionFrame) || isRefusal(err) {
				v.refused.log(v.o.Logger, slog.LevelWarn, "end a connection of the election port", c.socket,
					fmt.Errorf("server %d: %w", c.peer.id, err))
			}
			return
		}
		n, err := peerwire.DecodeNotification(frame)
		if err != nil {
			v.o.Logger.Debug("ignore a vote", slog.Int64("peer", int64(c.peer.id)), slog.Any("error", err))
			continue
		}
		if !v.receive(c, n) {
			return
		}
		if cap(frame) > frameStep {
			frame = nil
		}
	}
}

// receive hands a notification over, unless the connection was replaced:
// notifications from the new connection are newer, and must not be overtaken by
// those from the old one.
func (v *Votes) receive(c *voteConn, n fle.Notification) bool {
	c.peer.receiving.Lock()
	defer c.peer.receiving.Unlock()
	if c.done.Err() != nil {
		return false
	}
	c.spoke.Store(true)
	v.o.Receive(c.peer.id, n)
	return true
}

// lostWithin is how long the newest message may count as undelivered: a message that
// was written longer ago is not sent again when its connection is lost. A server that
// is still looking has sent a newer one by then.
const lostWithin = time.Minute

// lost ends a connection. The newest message may not have been delivered and is
// sent again: the kernel accepts a small message at once, and only the reader
// learns that it has not arrived.
func (v *Votes) lost(c *voteConn, sending bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	c.close()
	p := c.peer
	if p.conn == c {
		p.conn = nil
		p.next.rest(c.spoke.Load(), time.Now())
		if len(p.addresses) == 0 && !p.dialing {
			v.forget(p)
		}
	}
	if (sending || p.untold || time.Since(p.sent) < lostWithin) && p.conn == nil && p.unsent == nil {
		p.unsent = p.last
	}
	v.push(p)
}

// readInitial reads the initial message and nothing of what comes after it.
func readInitial(r io.Reader) (peerwire.Initial, error) {
	var buffer [peerwire.InitialBytesMax]byte
	for have := 0; ; {
		need, whole, err := peerwire.InitialBytes(buffer[:have])
		if err != nil {
			return peerwire.Initial{}, err
		}
		if whole {
			return peerwire.DecodeInitial(buffer[:have])
		}
		if _, err := io.ReadFull(r, buffer[have:need]); err != nil {
			return peerwire.Initial{}, err
		}
		have = need
	}
}

// frameStep is how much memory a frame gets before its bytes have arrived.
const frameStep = 16 << 10

// readFrame reads a frame into buffer, without its length.
func readFrame(r *bufio.Reader, buffer []byte) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	left, err := peerwire.ElectionFrameLength(head[:])
	for err == nil && left > 0 {
		step := min(left, frameStep)
		at := len(buffer)
		buffer = append(buffer, make([]byte, step)...)
		_, err = io.ReadFull(r, buffer[at:])
		left -= step
	}
	return buffer, err
}

// appendInitial builds the initial message. Without an address it uses the form
// of ZooKeeper 3.4, which is only the number.
func appendInitial(in peerwire.Initial) ([]byte, error) {
	if len(in.Addresses) == 0 {
		return jute.AppendLong(nil, int64(in.Server)), nil
	}
	return peerwire.AppendInitial(nil, in)
}
