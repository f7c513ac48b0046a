package recipes

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// shortened is a connection whose handshake, once toMs is set, grants a shorter
// timeout: the timeout is the second field after the length.
type shortened struct {
	net.Conn
	toMs  *atomic.Int32
	greet bool // the reply of the handshake has been read
}

func (s *shortened) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if ms := s.toMs.Load(); !s.greet && n >= 12 && ms > 0 {
		b[8], b[9], b[10], b[11] = 0, 0, byte(ms>>8), byte(ms)
	}
	s.greet = s.greet || n >= 12
	return n, err
}

// TestHeldLockIsNotProvenLongerThanItsSession resumes the session with a shorter
// timeout, as a ZooKeeper server with a lower maxSessionTimeout would grant it, and
// then disconnects the client.
func TestHeldLockIsNotProvenLongerThanItsSession(t *testing.T) {
	addr := serve(t)
	var toMs atomic.Int32
	var cut atomic.Bool
	var last atomic.Pointer[net.Conn]
	c := dialed(t, addr, client.Options{SessionTimeout: 8 * time.Second, BackoffMax: 20 * time.Millisecond,
		Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
			if cut.Load() {
				return nil, errors.New("partitioned")
			}
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			last.Store(&conn)
			return &shortened{Conn: conn, toMs: &toMs}, err
		}})
	h, err := NewLock(c, "/lock", Options{}).Acquire(awaittest.Within(t))
	must(t, err)
	long := c.Timeout()
	toMs.Store(int32(long.Milliseconds() / 8))
	states := c.Subscribe()
	defer states.Close()
	(*last.Load()).Close()
	for range states.Events() {
		if c.Timeout() < long {
			break
		}
	}
	cut.Store(true)
	(*last.Load()).Close()
	proven, _ := c.ProvenUntil()
	if late := h.ProvenUntil().Sub(proven); late > 0 {
		t.Errorf("the lock claims to be proven %v beyond what the client knows of the session", late)
	}
	select {
	case <-h.Lost():
	case <-time.After(long / 2):
		t.Error("the session is over, and its lock is not lost")
	}
}
