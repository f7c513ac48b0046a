// Package probe is a small ZooKeeper client for tests that exchange bytes with a server.
//
// It shares no code with the server or with package client: otherwise a mistake made in
// both directions would go unnoticed. It sends requests as typed calls, or arbitrary bytes.
// It returns replies in order, and events separately.
//
// What always holds:
//
//	probe-P1  Each call has a deadline; a test never hangs here.
//	probe-P2  One goroutine may use Send while another uses Receive, so a test
//	          can keep many requests in flight.
//	probe-P3  It never reconnects and never pings by itself.
package probe

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// Deadline bounds each wait for the server.
const Deadline = 30 * time.Second

// frameBytesMax is the longest frame that a server may send; a longer one is an error.
const frameBytesMax = 64 << 20

// Op codes of the requests that tests send, by their numbers in the protocol.
const (
	OpCreate          = 1
	OpDelete          = 2
	OpExists          = 3
	OpGetData         = 4
	OpSetData         = 5
	OpGetACL          = 6
	OpSetACL          = 7
	OpPing            = 11
	OpGetChildren2    = 12
	OpCheck           = 13
	OpMulti           = 14
	OpCreate2         = 15
	OpCreateContainer = 19
	OpCreateTTL       = 21
	OpAuth            = 100
	OpGetEphemerals   = 103
	OpClose           = -11
)

// Xids with a meaning of their own.
const (
	xidEvent = -1
	xidPing  = -2
	xidAuth  = -4
)

// A Conn is one connection with a session.
type Conn struct {
	// Session and Password re-attach the session from another connection.
	Session  int64
	Password []byte

	// TimeoutMs is what the server has granted.
	TimeoutMs int32

	// Events are the notifications received so far; Receive appends to it.
	Events []Event

	socket net.Conn
	in     *bufio.Reader
	xid    int32
	zxid   int64 // of the last reply
}

// An Event is one notification.
type Event struct {
	Type int32 // 1 created, 2 deleted, 3 data changed, 4 children changed
	Path string
}

// A Code is an error number of the protocol, below zero.
type Code int32

// Codes that tests check.
const (
	NoNode     Code = -101
	NodeExists Code = -110
	BadVersion Code = -103
)

func (c Code) Error() string { return fmt.Sprintf("zookeeper error %d", int32(c)) }

// ErrRefused says that the server did not accept the session: it has expired or
// the password is wrong.
var ErrRefused = errors.New("probe: session refused")

// Dial opens a new session.
func Dial(addr string, timeout time.Duration) (*Conn, error) {
	return Attach(addr, timeout, 0, make([]byte, 16))
}

// Attach opens a connection for an existing session. It does not send the last zxid that
// the session has seen, so it is for servers that have all of it.
func Attach(addr string, timeout time.Duration, session int64, password []byte) (*Conn, error) {
	return (&Conn{Session: session, Password: password}).Move(addr, timeout)
}

// Move opens another connection for the session, as client libraries do. It continues the
// numbering of the requests, and leaves out one number for a request that this connection
// may still send. If the server lacks something that the session has seen, it closes the
// connection. Servers identify a request by its session and number: two with the same
// number get one answer.
func (c *Conn) Move(addr string, timeout time.Duration) (*Conn, error) {
	socket, err := net.DialTimeout("tcp", addr, Deadline)
	if err != nil {
		return nil, fmt.Errorf("probe: %w", err)
	}
	moved := &Conn{socket: socket, in: bufio.NewReaderSize(socket, 512), xid: c.xid + 1, zxid: c.zxid}
	if err := moved.handshake(timeout, c.Session, c.Password); err != nil {
		socket.Close()
		return nil, err
	}
	return moved, nil
}

func (c *Conn) handshake(timeout time.Duration, session int64, password []byte) error {
	if err := c.write(connectRequest(c.zxid, timeout, session, password)); err != nil {
		return fmt.Errorf("probe: handshake: %w", err)
	}
	frame, err := c.frame()
	if err != nil {
		return fmt.Errorf("probe: handshake: %w", err)
	}
	d := decoder{frame, nil}
	d.int32() // protocol version
	c.TimeoutMs = d.int32()
	c.Session = d.int64()
	c.Password = d.buffer()
	if d.err != nil {
		return fmt.Errorf("probe: handshake: %w", d.err)
	}
	if c.TimeoutMs <= 0 {
		return ErrRefused
	}
	return nil
}

// ConnectRequest returns the first frame of a connection, with its length, for a client
// that has seen nothing.
func ConnectRequest(timeout time.Duration, session int64, password []byte) []byte {
	return connectRequest(0, timeout, session, password)
}

func connectRequest(seen int64, timeout time.Duration, session int64, password []byte) []byte {
	var e encoder
	e.int32(0)
	e.int64(seen)
	e.int32(int32(timeout.Milliseconds()))
	e.int64(session)
	e.buffer(password)
	e.bool(false)
	return e.framed()
}

// Send writes a request without waiting for its reply and returns its xid.
func (c *Conn) Send(op int32, body []byte) (int32, error) {
	c.xid++
	xid := c.xid
	switch op {
	case OpPing:
		xid = xidPing
	case OpAuth:
		xid = xidAuth
	}
	return xid, c.write(Request(xid, op, body))
}

// Request returns a frame with a request, including its length.
func Request(xid, op int32, body []byte) []byte {
	var e encoder
	e.int32(xid)
	e.int32(op)
	e.bytes = append(e.bytes, body...)
	return e.framed()
}

// A Reply is what the server answered to one request.
type Reply struct {
	Xid  int32
	Zxid int64
	Code Code // 0 for success
	Body []byte
}

// Receive returns the next reply; events before it go to Events.
func (c *Conn) Receive() (Reply, error) {
	for {
		if r, event, err := c.next(); err != nil || !event {
			return r, err
		}
	}
}

// ReceiveEvent waits for one event, which goes to Events. A reply is an error: call it when
// none is outstanding.
func (c *Conn) ReceiveEvent() error {
	r, event, err := c.next()
	if err == nil && !event {
		err = fmt.Errorf("probe: reply to xid %d where an event was due", r.Xid)
	}
	return err
}

// next reads one frame; it keeps an event and returns a reply.
func (c *Conn) next() (r Reply, event bool, err error) {
	frame, err := c.frame()
	if err != nil {
		return Reply{}, false, fmt.Errorf("probe: receive: %w", err)
	}
	d := decoder{frame, nil}
	r = Reply{Xid: d.int32(), Zxid: d.int64(), Code: Code(d.int32())}
	r.Body = d.rest
	c.zxid = max(c.zxid, r.Zxid)
	if r.Xid == xidEvent {
		e := Event{Type: d.int32()}
		d.int32() // the state, always "connected"
		e.Path = d.string()
		c.Events = append(c.Events, e)
	}
	if d.err != nil {
		return Reply{}, false, fmt.Errorf("probe: receive: %w", d.err)
	}
	return r, r.Xid == xidEvent, nil
}

// Call sends a request and waits for its reply. The error is the reply's Code,
// if that is not success.
func (c *Conn) Call(op int32, body []byte) ([]byte, error) {
	xid, err := c.Send(op, body)
	if err != nil {
		return nil, fmt.Errorf("probe: send: %w", err)
	}
	r, err := c.Receive()
	if err != nil {
		return nil, err
	}
	if r.Xid != xid {
		return nil, fmt.Errorf("probe: reply to xid %d in place of %d", r.Xid, xid)
	}
	if r.Code != 0 {
		return nil, r.Code
	}
	return r.Body, nil
}

// Write sends any bytes at all.
func (c *Conn) Write(b []byte) error { return c.write(b) }

// Cut closes the socket and leaves the session to its timeout.
func (c *Conn) Cut() { c.socket.Close() }

// Close ends the session and then the connection.
func (c *Conn) Close() error {
	defer c.socket.Close()
	_, err := c.Call(OpClose, nil)
	return err
}

func (c *Conn) write(b []byte) error {
	if err := c.socket.SetWriteDeadline(time.Now().Add(Deadline)); err != nil {
		return err
	}
	_, err := c.socket.Write(b)
	return err
}

// frame reads one frame without its length.
func (c *Conn) frame() ([]byte, error) {
	if err := c.socket.SetReadDeadline(time.Now().Add(Deadline)); err != nil {
		return nil, err
	}
	var length [4]byte
	if _, err := io.ReadFull(c.in, length[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > frameBytesMax {
		return nil, fmt.Errorf("the server sent a frame of %d bytes", n)
	}
	frame := make([]byte, n)
	_, err := io.ReadFull(c.in, frame)
	return frame, err
}
