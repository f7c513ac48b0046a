package server

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// A thousand clients send heartbeats and requests at random, so that their connections become
// idle and wake all the time. Meanwhile a quarter of them are ended in every way. All others
// are always answered, and nothing is left of those that were ended.
func TestHeartbeatStorm(t *testing.T) {
	const clients = 1000
	s := patient(t, nil)
	stays := dial(t, s, nil)
	those := heartbeats{t: t, server: s}
	failed := make(chan error, clients)
	for i := range clients {
		go func() { failed <- those.client(i) }()
	}
	for range clients {
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
	}
	becomes(t, s, 1)
	stays.must(zk.OK, zk.Request{Op: zk.OpPing})
	for how := range those.ended {
		if those.ended[how].Load() == 0 {
			t.Errorf("no connection was ended in way %d", how)
		}
	}
	if n := s.inFlight.Load(); n != 0 {
		t.Errorf("%d requests are still counted", n)
	}
}

type heartbeats struct {
	t      *testing.T
	server *Server
	ended  [5]atomic.Int64
}

// client sends requests for some rounds, on a connection that nobody ends except this client.
func (s *heartbeats) client(i int) error {
	const rounds = 15
	victim := i%4 == 0
	c, err := s.dial(nil)
	if err != nil {
		return err
	}
	for range rounds {
		if err := c.round(); err != nil {
			return fmt.Errorf("client %d: %w", i, err)
		}
		if victim && rand.IntN(3) == 0 {
			if c, err = s.end(c); err != nil {
				return fmt.Errorf("client %d: %w", i, err)
			}
		}
		awaittest.RealTime(rand.N(4*time.Millisecond), "clients are idle for a while")
	}
	return c.socket.Close()
}

type stormClient struct {
	socket net.Conn
	id     zk.SessionID
	pass   zk.Password
}

func (s *heartbeats) dial(old *stormClient) (*stormClient, error) {
	socket, err := net.Dial("tcp", s.server.Addr().String())
	if err != nil {
		return nil, err
	}
	s.t.Cleanup(func() { socket.Close() })
	c := &stormClient{socket: socket}
	return c, c.connect(old)
}

// connect shakes hands.
func (c *stormClient) connect(old *stormClient) error {
	req := wire.ConnectRequest{TimeoutMs: 5000, Password: make([]byte, 16), HasReadOnly: true}
	if old != nil {
		req.Session, req.Password = old.id, old.pass[:]
	}
	if _, err := c.socket.Write(wire.AppendConnectRequest(nil, &req)); err != nil {
		return err
	}
	frame, err := c.frame()
	if err != nil {
		return err
	}
	res, err := wire.DecodeConnectResponse(frame)
	if err == nil {
		c.id, c.pass = res.Session, res.Password
	}
	return err
}

func (c *stormClient) frame() ([]byte, error) {
	_ = c.socket.SetReadDeadline(time.Now().Add(30 * time.Second))
	return readFrame(c.socket)
}

// heartbeat and question are requests.
var (
	heartbeat = wire.AppendRequest(nil, &zk.Request{Op: zk.OpPing, Xid: -2})
	question  = wire.AppendRequest(nil, &zk.Request{Op: zk.OpExists, Xid: 1, Path: "/"})
)

// round sends some requests, in one write or two, and reads the answers.
func (c *stormClient) round() error {
	sent := [][][]byte{
		{heartbeat}, {heartbeat}, {question}, {heartbeat, question}, {question, heartbeat}, {heartbeat, heartbeat}, {heartbeat[:6], heartbeat[6:]},
	}[rand.IntN(7)]
	bytes := 0
	for _, b := range sent {
		bytes += len(b)
		if _, err := c.socket.Write(b); err != nil {
			return err
		}
	}
	for range max(1, bytes/len(heartbeat)) {
		if _, err := c.frame(); err != nil {
			return err
		}
	}
	return nil
}

// end ends a connection, or makes the server end it, while it becomes idle; and makes another
// one. A connection that the server ends stays open on the client's side.
func (s *heartbeats) end(c *stormClient) (*stormClient, error) {
	if _, err := c.socket.Write(heartbeat); err != nil {
		return nil, err
	}
	how := rand.IntN(len(s.ended))
	s.ended[how].Add(1)
	switch how {
	case 0:
		c.socket.Close()
		return s.dial(nil)
	case 1:
		reset(c.socket)
		return s.dial(nil)
	case 2:
		next, err := s.dial(c)
		return next, errors.Join(err, c.gone())
	case 3:
		s.server.ExpireSession(c.id)
	default:
		s.overrun(c)
	}
	if err := c.gone(); err != nil {
		return nil, err
	}
	return s.dial(nil)
}

// gone waits until the server has ended the connection.
func (c *stormClient) gone() error {
	for {
		if _, err := c.frame(); errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		} else if err != nil {
			return nil
		}
	}
}

// overrun does what follows from an outbox that is too long.
func (s *heartbeats) overrun(c *stormClient) {
	for _, one := range s.server.conns.all() {
		if one.remote.String() == c.socket.LocalAddr().String() {
			one.out.mu.Lock()
			one.overrun()
			one.out.mu.Unlock()
		}
	}
}
