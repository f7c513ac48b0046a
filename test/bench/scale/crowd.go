//go:build linux

package scale

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
	"time"

	"github.com/conclave-project/conclave/test/probe"
)

// A crowd is many clients in one goroutine: raw sockets with one epoll. A client is a
// session, with or without a connection. Things happen only inside the methods.
type crowd struct {
	// again makes a client whose connection ends reconnect to the next server, with its
	// session. Without it, the end of a connection is an error.
	again bool

	// attachedTo is called when a client's session is attached to a connection; it may be
	// nil.
	attachedTo func(i int)

	timeout  time.Duration
	addrs    []*syscall.SockaddrInet4
	epoll    int
	clients  []client
	byFD     []int32 // clients by file descriptor
	waiting  []retry // in order of time
	attached int     // clients that are attached now
	replies  int     // total number of replies without errors
	refused  int     // replies that are errors, and sessions that no longer existed
	events   int     // number of notifications
	in       []byte
	sources  int // number of the clients' first address
}

// A client is one client of a crowd.
type client struct {
	fd       int // -1 without a connection
	state    state
	server   int
	replies  int // since the connection was attached
	session  int64
	password []byte
	rest     []byte // the beginning of an incomplete frame
}

type state uint8

const (
	apart      state = iota
	connecting       // the socket is connecting
	greeting         // the handshake was sent
	attached
)

// A retry is a client that will reconnect at a given time.
type retry struct {
	at time.Time
	i  int
}

// retryAfter is how long a client waits after its connection ended.
const retryAfter = 20 * time.Millisecond

// ipBindAddressNoPort makes the kernel choose the port only when it knows the remote
// address.
const ipBindAddressNoPort = 24

// perSource is how many clients share an address: there are fewer than 28,000 ports for
// each, and the ports of an earlier crowd stay in use for a minute.
const perSource = 16_000

// source returns the address of a client, in the loopback network.
func (c *crowd) source(i int) [4]byte {
	n := c.sources + i/perSource
	return [4]byte{127, byte(1 + n>>16%100), byte(n >> 8), byte(1 + n%200)}
}

func newCrowd(timeout time.Duration, addrs ...string) (*crowd, error) {
	c := &crowd{timeout: timeout, in: make([]byte, 1<<16), sources: rand.IntN(1 << 22)}
	for _, addr := range addrs {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		number, err := strconv.Atoi(port)
		ip := net.ParseIP(host).To4()
		if err != nil || ip == nil {
			return nil, fmt.Errorf("crowd: address %q", addr)
		}
		c.addrs = append(c.addrs, &syscall.SockaddrInet4{Port: number, Addr: [4]byte(ip)})
	}
	var err error
	c.epoll, err = syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	return c, err
}

// close closes all connections; the sessions expire.
func (c *crowd) close() {
	c.cut()
	syscall.Close(c.epoll)
}

// cut closes all connections without a message to the servers.
func (c *crowd) cut() {
	for i := range c.clients {
		c.part(i)
	}
	c.waiting = nil
}

// part closes a client's connection.
func (c *crowd) part(i int) {
	m := &c.clients[i]
	if m.fd < 0 {
		return
	}
	if m.state == attached {
		c.attached--
	}
	_ = syscall.Close(m.fd) // there is nothing to do about an error
	m.fd, m.state, m.rest = -1, apart, nil
}

// grow adds clients until there are n, and waits until each has a session. At most window
// of them are connecting at a time.
func (c *crowd) grow(ctx context.Context, n, window int) error {
	for c.attached < n {
		for len(c.clients) < n && len(c.clients)-c.attached < window {
			c.clients = append(c.clients, client{fd: -1, server: len(c.clients) % len(c.addrs), password: make([]byte, 16)})
			if err := c.connect(len(c.clients) - 1); err != nil {
				return err
			}
		}
		if err := c.wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// connect starts to connect a client to its server.
func (c *crowd) connect(i int) error {
	m := &c.clients[i]
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("crowd: client %d: %w", i, err)
	}
	from := &syscall.SockaddrInet4{Addr: c.source(i)}
	err = errors.Join(syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1),
		syscall.SetsockoptInt(fd, syscall.IPPROTO_IP, ipBindAddressNoPort, 1), syscall.Bind(fd, from))
	if err != nil {
		syscall.Close(fd)
		return fmt.Errorf("crowd: client %d: %w", i, err)
	}
	for len(c.byFD) <= fd {
		c.byFD = append(c.byFD, -1)
	}
	c.byFD[fd] = int32(i)
	m.fd, m.state, m.replies = fd, connecting, 0
	event := syscall.EpollEvent{Events: syscall.EPOLLOUT, Fd: int32(fd)}
	if err := syscall.EpollCtl(c.epoll, syscall.EPOLL_CTL_ADD, fd, &event); err != nil {
		return fmt.Errorf("crowd: client %d: %w", i, err)
	}
	if err := syscall.Connect(fd, c.addrs[m.server]); err != nil && !errors.Is(err, syscall.EINPROGRESS) {
		return c.lost(i, err)
	}
	return nil
}

// lost handles the end of a client's connection.
func (c *crowd) lost(i int, why error) error {
	c.part(i)
	if !c.again {
		return fmt.Errorf("crowd: client %d: %w", i, why)
	}
	m := &c.clients[i]
	m.server = (m.server + 1) % len(c.addrs)
	c.waiting = append(c.waiting, retry{time.Now().Add(retryAfter), i})
	return nil
}

// waitMs is the time limit of one wait for the sockets.
const waitMs = 20

// wait waits for input, at most for a moment, and processes it.
func (c *crowd) wait(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	now := time.Now()
	for len(c.waiting) > 0 && !c.waiting[0].at.After(now) {
		i := c.waiting[0].i
		c.waiting = c.waiting[1:]
		if err := c.connect(i); err != nil {
			return err
		}
	}
	var events [256]syscall.EpollEvent
	n, err := syscall.EpollWait(c.epoll, events[:], waitMs)
	if err != nil && !errors.Is(err, syscall.EINTR) {
		return fmt.Errorf("crowd: %w", err)
	}
	for _, e := range events[:max(0, n)] {
		i := int(c.byFD[e.Fd])
		if i < 0 || c.clients[i].fd != int(e.Fd) {
			continue
		}
		if err := c.ready(i); err != nil {
			return err
		}
	}
	return nil
}

// until waits until done returns true.
func (c *crowd) until(ctx context.Context, done func() bool) error {
	for !done() {
		if err := c.wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// ready processes the input of one client.
func (c *crowd) ready(i int) error {
	m := &c.clients[i]
	if m.state == connecting {
		if code, err := syscall.GetsockoptInt(m.fd, syscall.SOL_SOCKET, syscall.SO_ERROR); err != nil || code != 0 {
			return c.lost(i, syscall.Errno(code))
		}
		event := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(m.fd)}
		if err := syscall.EpollCtl(c.epoll, syscall.EPOLL_CTL_MOD, m.fd, &event); err != nil {
			return fmt.Errorf("crowd: client %d: %w", i, err)
		}
		m.state = greeting
		return c.send(i, probe.ConnectRequest(c.timeout, m.session, m.password))
	}
	n, err := syscall.Read(m.fd, c.in)
	switch {
	case errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR):
		return nil
	case err != nil:
		return c.lost(i, err)
	case n == 0:
		return c.lost(i, errors.New("the server has ended the connection"))
	}
	return c.take(i, c.in[:n])
}

// send writes a frame; it must fit into the socket's buffer.
func (c *crowd) send(i int, frame []byte) error {
	m := &c.clients[i]
	if m.fd < 0 {
		return nil
	}
	if n, err := syscall.Write(m.fd, frame); err != nil {
		return c.lost(i, err)
	} else if n < len(frame) {
		return fmt.Errorf("crowd: client %d: its socket is full", i)
	}
	return nil
}

// sendAll writes a frame to each attached client.
func (c *crowd) sendAll(frame func(i int) []byte) error {
	for i := range c.clients {
		if c.clients[i].state != attached {
			continue
		}
		if err := c.send(i, frame(i)); err != nil {
			return err
		}
	}
	return nil
}

// take splits input into frames.
func (c *crowd) take(i int, read []byte) error {
	m := &c.clients[i]
	if len(m.rest) > 0 {
		read = append(m.rest, read...)
	}
	for len(read) >= 4 {
		n := int(binary.BigEndian.Uint32(read))
		if len(read) < 4+n {
			break
		}
		if err := c.frame(i, read[4:4+n]); err != nil || m.fd < 0 {
			return err
		}
		read = read[4+n:]
	}
	m.rest = append([]byte(nil), read...)
	return nil
}

// frame handles one frame: the answer to the handshake, an event or a reply.
func (c *crowd) frame(i int, frame []byte) error {
	m := &c.clients[i]
	if len(frame) < 16 {
		return fmt.Errorf("crowd: client %d: a frame of %d bytes", i, len(frame))
	}
	switch {
	case m.state == greeting:
		return c.greeted(i, frame)
	case int32(binary.BigEndian.Uint32(frame)) == -1:
		c.events++
	case int32(binary.BigEndian.Uint32(frame[12:])) != 0:
		m.replies++
		c.refused++
	default:
		m.replies++
		c.replies++
	}
	return nil
}

// greeted handles the answer to a handshake: version, timeout, session, password.
func (c *crowd) greeted(i int, frame []byte) error {
	m := &c.clients[i]
	if len(frame) < 36 {
		return fmt.Errorf("crowd: client %d: a handshake of %d bytes", i, len(frame))
	}
	if int32(binary.BigEndian.Uint32(frame[4:])) <= 0 {
		c.refused++
		m.session, m.password = 0, make([]byte, 16)
		return c.lost(i, probe.ErrRefused)
	}
	m.session = int64(binary.BigEndian.Uint64(frame[8:]))
	m.password = append([]byte(nil), frame[20:36]...)
	m.state = attached
	c.attached++
	if c.attachedTo != nil {
		c.attachedTo(i)
	}
	return nil
}

// descriptorsKept are the file descriptors for everything else in a process: the server
// keeps 512.
const descriptorsKept = 600

// clientsMax returns how many connections the file descriptors of one process allow.
func clientsMax() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < 2*descriptorsKept {
		return descriptorsKept
	}
	return int(min(limit.Cur, 1<<30)) - descriptorsKept
}

// withinClients limits sizes to what the file descriptors of a process allow, with a note
// in the table if it has to.
func (t *Table) withinClients(sizes []int) []int {
	most := clientsMax()
	var fit []int
	for _, n := range sizes {
		if n > most {
			t.note("connections stop at %s: a process may have %s descriptors here (ulimit -n)", sizeText(most), sizeText(most+descriptorsKept))
			return append(fit, most)
		}
		fit = append(fit, n)
	}
	return fit
}
