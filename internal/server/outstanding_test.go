package server

import (
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// floods makes many clients send requests while the loop is busy, until the server reads no
// more from them. It returns the clients, and a function that lets the loop continue.
func floods(t *testing.T, s *Server, clients, each int, r zk.Request) (all []*peer, release func()) {
	t.Helper()
	for range clients {
		all = append(all, dial(t, s, nil))
	}
	var portion []byte
	for xid := range int32(each) {
		r.Xid = xid + 1
		portion = wire.AppendRequest(portion, &r)
	}
	release = hold(t, s)
	for _, p := range all {
		go p.socket.Write(portion)
	}
	awaittest.Until(t, "all wait for the loop: nothing more comes", func() bool { return waitForTheLoop() == clients })
	return all, release
}

// repliesTo reads the answers of all clients, which must come in order.
func repliesTo(t *testing.T, all []*peer, each int) {
	t.Helper()
	for xid := range int32(each) {
		for i, p := range all {
			if err := answered(p.socket, xid+1); err != nil {
				t.Fatalf("client %d: %v", i, err)
			}
		}
	}
}

// However many connections there are, and however much they send at once: beyond the limit the
// loop has one request of each.
func TestOutstandingRequestsOfManyConnectionsAreLimited(t *testing.T) {
	const clients, each, limit = 300, 400, 200
	s := start(t, vfs.NewMem(), func(c *Config) {
		c.InFlightMax, c.ConnsPerIPMax = limit, 0
		c.SessionMin, c.SessionMax = time.Minute, time.Minute // the first one is silent until all have come
	})
	all, release := floods(t, s, clients, each, zk.Request{Op: zk.OpSetData, Path: "/x", Version: -1})
	if n := s.inFlight.Load(); n > limit+clients {
		t.Errorf("%d requests are on their way, limit %d, of %d clients", n, limit, clients)
	}
	release()
	repliesTo(t, all, each)
	awaittest.Until(t, "none are on their way", func() bool { return s.inFlight.Load() == 0 && s.requestBytes.Load() == 0 })
}

// The same for their bytes, and for what they are decoded into, even if clients leave without
// waiting for answers.
func TestBytesOfOutstandingRequestsAreLimited(t *testing.T) {
	const clients, each = 50, 100
	r := zk.Request{Op: zk.OpMulti}
	for len(wire.AppendRequest(nil, &r)) < 12<<10 {
		r.Ops = append(r.Ops, zk.Request{Op: zk.OpCheck, Path: "/" + strings.Repeat("x", 100), Version: -1})
	}
	one := costOfShort(zk.OpMulti, len(wire.AppendRequest(nil, &r)))
	const most = inFlightBytesMax
	if one == 0 || one*clients*each < 2*most {
		t.Fatalf("%d bytes of each are no test", one)
	}
	s := start(t, vfs.NewMem(), nil)
	all, release := floods(t, s, clients, each, r)
	if n := s.requestBytes.Load(); n > most+clients*one {
		t.Errorf("%d bytes of requests are on their way, %d may be, and one request of each client", n, most)
	}
	for _, p := range all[:clients/2] {
		p.socket.Close()
	}
	release()
	repliesTo(t, all[clients/2:], each)
	awaittest.Until(t, "none are on their way", func() bool { return s.inFlight.Load() == 0 && s.requestBytes.Load() == 0 })
}
