package server

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// Many clients that lag a little are as bad as one that lags a lot: together
// they must stay within the budget, and what they held is released.
func TestLaggingClientsTogetherStayWithinTheBudget(t *testing.T) {
	const budget, lagging = 8 << 20, 12
	s := start(t, vfs.NewMem(), func(c *Config) { c.OutboxBudget, c.TickTime = budget, 2*time.Second })
	p := dial(t, s, nil)
	path := "/" + strings.Repeat("p", 4000)
	p.do(create(path, "", 0))
	for range lagging {
		slow := dial(t, s, nil)
		slow.socket.(*net.TCPConn).SetReadBuffer(4 << 10)
		slow.do(zk.Request{Op: zk.OpAddWatch, Path: path, Watches: zk.WatchPersistent})
	}
	const most = budget + (lagging+1)*outboxCrowded + 1<<20
	for i := 0; len(s.conns.all()) > 1; i++ {
		batch := make([]zk.Request, 100)
		for j := range batch {
			batch[j] = zk.Request{Op: zk.OpSetData, Path: path, Version: -1}
		}
		p.send(batch...)
		for range batch {
			if h, _ := p.reply(zk.OpSetData); h.Code != zk.OK {
				t.Fatal(h)
			}
		}
		if held := s.outboxBytes.Load(); held > most {
			t.Fatalf("outboxes hold %d bytes, budget %d", held, budget)
		}
		if i > 200 {
			t.Fatalf("%d connections are still here, outboxes hold %d bytes", len(s.conns.all()), s.outboxBytes.Load())
		}
	}
	p.do(zk.Request{Op: zk.OpPing})
	if held := s.outboxBytes.Load(); held > 1<<10 {
		t.Fatalf("%d bytes are counted with nobody to hold them", held)
	}
}

// Clients that read nothing, and say that they are there, must not hold the budget of all
// for as long as they like: those that do read would be disconnected for it.
func TestClientThatReadsNothingIsDisconnected(t *testing.T) {
	s := start(t, vfs.NewMem(), nil)
	s.closeGrace = 300 * time.Millisecond
	p := dial(t, s, nil)
	p.do(create("/big", strings.Repeat("x", 1_000_000), 0))
	lagging := dial(t, s, nil)
	lagging.socket.(*net.TCPConn).SetReadBuffer(4 << 10)
	r := zk.Request{Op: zk.OpMultiRead}
	for range 20 {
		r.Ops = append(r.Ops, zk.Request{Op: zk.OpGetData, Path: "/big"})
	}
	lagging.send(create("/small", "", 0), r) // after a write: the connection goes on reading
	p.socket.Close()
	for wait := time.Now(); len(s.conns.all()) > 0; time.Sleep(10 * time.Millisecond) {
		if _, err := lagging.socket.Write(wire.AppendRequest(nil, &zk.Request{Op: zk.OpPing, Xid: -2})); err != nil {
			break
		}
		if time.Since(wait) > time.Minute {
			t.Fatalf("it is still connected, and holds %d bytes", s.outboxBytes.Load())
		}
	}
	if held := s.outboxBytes.Load(); held > 1<<20 {
		t.Errorf("%d bytes are held", held)
	}
}
