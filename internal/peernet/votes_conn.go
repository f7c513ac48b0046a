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
	answer bool        // to a peer that had dialed
	dialed string      // the host for which its other end speaks; "": it has dialed
}

func (c *voteConn) close() {
	c.end()
	bare(c.socket).Close()
}

// welcome takes a connection in until it has said who it is.
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

// turnedAway logs a connection that came to nothing. One that says nothing may be a check
// whether the port is open, and one that came too late is of a peer that has a better one.
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

// introduced does what the verdict on a connection says, which has its place
// among those accepted. The connection is kept or closed, unless there is an
// error.
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

// from returns what a peer advertises as it leads there from here: what means the peer's
// own machine, such as localhost, becomes where its connection came from.
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

// callBack dials a peer that dialed. Most often it has lost its end of the connection that
// there is, or does not know of it yet: that one stays until the new one takes its place. If it
// ended now, a peer that has learned of it meanwhile would dial again, and be called back again,
// for ever where it takes time to open a connection. Called with mu held.
func (v *Votes) callBack(p *votePeer) {
	if p.conn != nil && p.conn.answer && !p.conn.spoke.Load() {
		p.next.failed = true // it dials again, and is not where it was dialed back
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

// adopt makes a connection that of p. It begins with the newest message, be it
// one that was sent before (peernet-N2). Of one that was dialed the host is given. Called with mu
// held.
func (v *Votes) adopt(p *votePeer, socket net.Conn, dialed string) {
	p.disconnect()
	endUnacknowledged(socket, v.o.ConnectTimeout)
	c := &voteConn{socket: socket, peer: p, answer: p.next.answers, dialed: dialed, ready: make(chan struct{}, 1)}
	c.done, c.end = context.WithCancel(v.done)
	p.conn, p.untold = c, false
	p.next.connected()
	if p.abandon != nil && peerwire.Connected(v.o.ID, p.id) == peerwire.CloseAndWait {
		// If it said now who this server is, the peer would dial back in vain, and if it is one of
		// Apache's end this connection before that.
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

// write sends what waits for the peer until the connection ends.
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

// take returns what the connection is to send, nil if there is nothing.
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

// read hands over what comes until the connection ends. It may be silent for as
// long as it likes.
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

// receive hands a notification over, unless the connection was replaced: what the
// new one says is newer, and must not be overtaken by what the old one said.
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

// lostWithin is how long the newest message may be on its way: one that was written
// longer ago is not sent again when its connection is lost. A server that still looks
// for a leader has sent a newer one by then.
const lostWithin = time.Minute

// lost ends a connection. The newest message may not have been delivered, and is
// to be sent again: the kernel takes a small one at once, and it is the reader
// that learns that it has not arrived.
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

// frameStep is how much memory a frame takes before its bytes have come.
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

// appendInitial makes the initial message; without an address it takes the form
// of ZooKeeper 3.4, which is the number alone.
func appendInitial(in peerwire.Initial) ([]byte, error) {
	if len(in.Addresses) == 0 {
		return jute.AppendLong(nil, int64(in.Server)), nil
	}
	return peerwire.AppendInitial(nil, in)
}
