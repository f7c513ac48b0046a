package recipes

import (
	"context"
	"encoding/binary"
	"net"
	"testing"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/zk"
)

// closer is a connection that reports a request to close the session before it is sent.
type closer struct {
	net.Conn
	closing func()
}

func (f closer) Write(b []byte) (int, error) {
	for rest := b; len(rest) >= 12; { // behind other requests it is written with them
		if eatsOp(zk.OpCloseSession)(rest) {
			f.closing()
			break
		}
		rest = rest[min(4+int(binary.BigEndian.Uint32(rest)), len(rest)):]
	}
	return f.Conn.Write(b)
}

// TestLockIsLostBeforeItsClientClosesTheSession: the next contender has the lock as soon as
// the servers have closed the session, and their answer may be late.
func TestLockIsLostBeforeItsClientClosesTheSession(t *testing.T) {
	var h *Held
	told := false
	c := dialed(t, serve(t), client.Options{Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return closer{conn, func() {
			told = true
			select {
			case <-h.Lost():
			default:
				t.Error("the session is closed under a lock that is not lost")
			}
			if left := h.ProvenUntil().Sub(clock.Now()); left > 0 {
				t.Errorf("the session is closed, and its lock is proven for %v", left)
			}
		}}, err
	}})
	var err error
	h, err = NewLock(c, "/lock", Options{}).Acquire(awaittest.Within(t))
	must(t, err)
	must(t, c.Close())
	if !told {
		t.Error("the session was not closed")
	}
	if c.Go(func(context.Context) {}) {
		t.Error("work for a session that is closed")
	}
}
