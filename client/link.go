package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/clientsession"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// link is one connection, from the first attempt to its end. Its own goroutine dials and
// then reads; another one writes. Client.mu guards out and socket; the other fields belong
// to the reader.
type link struct {
	c       *Client
	conn    int64 // the machine's number of this connection
	address string
	ctx     context.Context // ends when the link is dropped
	cancel  context.CancelFunc
	wait    time.Duration

	socket  net.Conn // nil while dialling
	dropped bool
	out     []byte        // frames for the writer
	outWake chan struct{} // capacity 1: out is not empty
	began   clock.Instant // when the attempt began; only set if there is an OnEvent
	told    bool          // the end of the attempt was reported
	err     error         // why it has ended

	buffer  []byte // buffer[start:end] is received and not yet parsed
	start   int
	end     int
	skip    int   // bytes still to come of a reply that is too long
	tooLong error // of the reply whose header is being handled
	greeted bool
	proof   Proof                // proves to the server who this client is; nil for no proof
	token   []byte               // to be sent
	held    *clientsession.Event // the greeting, kept until the proof is done
	ready   []*call
}

func newLink(c *Client, conn int64, address string, waitMs int64) *link {
	l := &link{c: c, conn: conn, address: address, outWake: make(chan struct{}, 1),
		wait: time.Duration(waitMs) * time.Millisecond}
	l.ctx, l.cancel = context.WithCancel(c.ctx)
	if c.options.OnEvent != nil {
		l.began = c.clock.Now()
	}
	return l
}

// drop ends the link. The caller holds Client.mu. Closing may take time with TLS, so the
// socket outlives the link. Bytes that were not handed to the socket yet are reported as
// not applied, so they must not be written any more (client-A1).
func (l *link) drop() {
	if l.dropped {
		return
	}
	l.dropped, l.out = true, nil
	l.c.tellConnect(l, cmp.Or(l.err, errGivenUp))
	l.cancel()
	if socket := l.socket; socket != nil {
		l.c.group.Go(func() { _ = socket.Close() })
	}
}

// greet writes the handshake to out. The caller holds Client.mu.
func (l *link) greet(e *clientsession.Effect) {
	l.out = wire.AppendConnectRequest(l.out, &wire.ConnectRequest{
		LastZxidSeen: e.LastZxid, TimeoutMs: e.Greeting.TimeoutMs, Session: e.Greeting.Session,
		Password: e.Greeting.Password[:], ReadOnly: e.Greeting.ReadOnly, HasReadOnly: true,
	})
	signal(l.outWake)
}

// send writes a request to out. The caller holds Client.mu.
func (l *link) send(r *zk.Request) {
	l.out = wire.AppendRequest(l.out, r)
	signal(l.outWake)
}

// run is the link's goroutine.
func (l *link) run() {
	defer l.cancel()
	err := l.open()
	if err == nil {
		err = l.read()
	}
	l.lost(err)
}

// lost tells the machine that the link has ended. Further calls do nothing.
func (l *link) lost(err error) {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	if !l.dropped {
		l.c.cause = fmt.Errorf("server %s: %w", l.address, err)
		l.err = err
	}
	l.c.step(clientsession.Event{Kind: clientsession.Lost, Conn: l.conn, Cause: err})
}

// open dials and stores the socket.
func (l *link) open() error {
	ctx, cancel := context.WithTimeout(l.ctx, l.wait)
	defer cancel()
	if err := l.beginProof(ctx); err != nil {
		return err
	}
	socket, err := l.c.dial(ctx, l.address)
	if err != nil {
		return err
	}
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	if l.dropped {
		l.c.group.Go(func() { _ = socket.Close() })
		return errors.New("dropped while dialling")
	}
	l.socket = socket
	l.c.step(clientsession.Event{Kind: clientsession.Dialed, Conn: l.conn})
	l.c.group.Go(l.write)
	return nil
}

// spareBytesMax is the largest output buffer that is kept for the next batch.
const spareBytesMax = 1 << 20

// drainWait is how long replies may still arrive after a failed write.
const drainWait = time.Second

// write writes what is in out, everything that has accumulated in one write. It ends with
// the link, and takes no batch after that. A failed write does not end the link yet: the
// server may have sent many answers before it went away, and without them the outcomes
// would be unknown. So the reader detects the end.
func (l *link) write() {
	var spare []byte
	for {
		select {
		case <-l.outWake:
		case <-l.ctx.Done():
			return
		}
		batch, ok := l.takeBatch(spare)
		if !ok {
			return
		}
		if _, err := l.socket.Write(batch); err != nil {
			_ = l.socket.SetReadDeadline(time.Now().Add(drainWait))
			return
		}
		spare = batch
		if cap(spare) > spareBytesMax {
			spare = nil
		}
	}
}

// takeBatch takes the bytes to be written, and leaves an empty buffer. From then on their
// requests may be applied. It returns false if the link was dropped.
func (l *link) takeBatch(spare []byte) ([]byte, bool) {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	if l.dropped {
		return nil, false
	}
	batch := l.out
	l.out = spare[:0]
	l.c.stepAt(0, clientsession.Event{Kind: clientsession.Flushed, Conn: l.conn}, nil)
	return batch, true
}

const readBufferBytes = 16 << 10

// read reads frames until the socket ends or sends something invalid.
func (l *link) read() error {
	l.buffer = make([]byte, readBufferBytes)
	for {
		if err := l.fill(); err != nil {
			return err
		}
		if err := l.parse(); err != nil {
			return err
		}
		if l.held != nil {
			if err := l.prove(); err != nil {
				return err
			}
			if err := l.parse(); err != nil {
				return err
			}
		}
	}
}

// fill reads what has arrived. The buffer grows only when it is full with the beginning of
// one frame, so a length alone does not allocate memory.
func (l *link) fill() error {
	if l.start > 0 {
		copy(l.buffer, l.buffer[l.start:l.end])
		l.start, l.end = 0, l.end-l.start
	}
	if l.end == 0 && len(l.buffer) > spareBytesMax {
		l.buffer = make([]byte, readBufferBytes) // do not keep the memory of one large reply
	}
	if l.end == len(l.buffer) {
		grown := make([]byte, 2*len(l.buffer))
		copy(grown, l.buffer)
		l.buffer = grown
	}
	n, err := l.socket.Read(l.buffer[l.end:])
	l.end += n
	if n > 0 || err == nil {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("server closed the connection: %w", err)
	}
	return err
}

// next returns the next complete frame, false if there is none yet.
func (l *link) next() ([]byte, bool, error) {
	l.skipSome()
	rest := l.buffer[l.start:l.end]
	if len(rest) < wire.PrefixBytes {
		return nil, false, nil
	}
	n, err := wire.FrameLength(rest, l.c.options.ReplyBytesMax)
	if err != nil {
		return l.nextTooLong(rest, err)
	}
	if len(rest) < wire.PrefixBytes+n {
		return nil, false, nil
	}
	l.start += wire.PrefixBytes + n
	return rest[wire.PrefixBytes : wire.PrefixBytes+n], true, nil
}

// nextTooLong returns the header of a reply that is too long, and lets the rest of it be
// skipped. So only the call that requested the reply fails, and not all calls on the
// connection.
func (l *link) nextTooLong(rest []byte, err error) ([]byte, bool, error) {
	n, errLength := wire.FrameLength(rest, math.MaxInt32)
	if errLength != nil || !l.greeted || n < wire.ReplyHeaderBytes {
		return nil, false, err
	}
	const start = wire.PrefixBytes + wire.ReplyHeaderBytes
	if len(rest) < start {
		return nil, false, nil
	}
	if h, _, errHeader := wire.DecodeReplyHeader(rest[wire.PrefixBytes:start]); errHeader != nil || h.Xid < 0 {
		return nil, false, err // not the reply to a call
	}
	l.start += start
	l.tooLong = fmt.Errorf("%w: %d bytes, limit %d", ErrReplyTooLong, n, l.c.options.ReplyBytesMax)
	l.skip = n - wire.ReplyHeaderBytes
	l.skipSome()
	return rest[wire.PrefixBytes:start], true, nil
}

// skipSome drops the received part of a reply that is too long.
func (l *link) skipSome() {
	n := min(l.skip, l.end-l.start)
	l.skip -= n
	l.start += n
}

// parse passes all complete frames to the machine, decodes the results of the calls that
// they complete, and wakes their callers. Bodies are decoded after the mutex is unlocked.
func (l *link) parse() error {
	l.ready = l.ready[:0]
	now := l.c.clock.Now().Millis()
	l.c.mu.Lock()
	var err error
	for err == nil && l.held == nil {
		var frame []byte
		var whole bool
		if frame, whole, err = l.next(); !whole {
			break
		}
		err = l.take(frame, now)
	}
	l.c.mu.Unlock()
	for i, call := range l.ready {
		if decodeErr := call.decode(); decodeErr != nil && err == nil {
			err = decodeErr
			l.lost(err) // before the caller can use this connection again
		}
		call.wake()
		l.ready[i] = nil
	}
	return err
}

// take passes one frame to the machine. The caller holds Client.mu.
func (l *link) take(frame []byte, nowMs int64) error {
	if !l.greeted {
		return l.takeGreeting(frame)
	}
	h, body, err := wire.DecodeReplyHeader(frame)
	if err != nil {
		return err
	}
	if h.Xid == zk.XidNotification {
		watched, err := wire.DecodeEvent(h, body)
		if err == nil {
			l.c.stepAt(nowMs, clientsession.Event{Kind: clientsession.Notified, Conn: l.conn, Watched: watched}, nil)
		}
		return err
	}
	before := len(l.ready)
	e := clientsession.Event{Kind: clientsession.Replied, Conn: l.conn, Xid: h.Xid, Zxid: h.Zxid, Code: h.Code}
	l.c.stepAt(nowMs, e, &l.ready)
	if len(l.ready) > before {
		l.ready[before].body, l.ready[before].tooLong = body, l.tooLong
		l.ready[before].bytes = wire.PrefixBytes + len(frame)
	}
	l.tooLong = nil
	return nil
}

func (l *link) takeGreeting(frame []byte) error {
	r, err := wire.DecodeConnectResponse(frame)
	if err != nil {
		return err
	}
	l.greeted = true
	e := clientsession.Event{Kind: clientsession.Greeted, Conn: l.conn, Greeting: clientsession.Greeting{
		TimeoutMs: r.TimeoutMs, Session: r.Session, Password: r.Password, ReadOnly: r.ReadOnly,
	}}
	if l.proof != nil && r.Session != 0 {
		l.held = &e
		return nil
	}
	l.c.step(e)
	return nil
}
