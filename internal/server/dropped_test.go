package server

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// A connection that waits for its part of the budget, and is dropped meanwhile because its
// session continues elsewhere, returns the part of its requests, which nobody answers, even if
// its client keeps the socket open.
func TestDroppedConnectionsGiveTheBudgetBack(t *testing.T) {
	for name, closes := range map[string]bool{"a client that closes": true, "one that does not": false} {
		t.Run(name, func(t *testing.T) {
			var hold atomic.Bool
			gate := make(chan struct{})
			faulty := &vfs.Faulty{Disk: vfs.NewMem(), Before: func(op vfs.Op) error {
				if hold.Load() && op.Kind == vfs.KindSync && isLog(op) {
					<-gate
				}
				return nil
			}}
			s := start(t, faulty, func(c *Config) { c.TickTime = 60 * time.Second })
			a := dial(t, s, nil)
			if code, _ := a.do(create("/n", "", 0)); code != zk.OK {
				t.Fatal(code)
			}
			long := func() zk.Request {
				return zk.Request{Op: zk.OpMulti, Ops: []zk.Request{{Op: zk.OpSetData, Path: "/n", Data: make([]byte, 950_000), Version: -1}}}
			}
			hold.Store(true)
			go a.send(long(), long(), long())
			awaittest.Until(t, "the third one waits for the budget", func() bool { return s.requests.waiting() == 1 })
			again := make(chan *peer)
			go func() { again <- dial(t, s, a) }()
			awaittest.Until(t, "the loop has dropped the connection", func() bool { return dropped(s) == 1 })
			if closes {
				a.socket.Close()
			}
			hold.Store(false)
			close(gate)
			b := <-again
			awaittest.Until(t, "the budget is whole again", func() bool { return s.requests.waiting() == 0 && s.requests.left() == requestBudgetMax })
			if code, _ := b.do(zk.Request{Op: zk.OpSetData, Path: "/n", Data: make([]byte, 20_000), Version: -1}); code != zk.OK {
				t.Error(code)
			}
		})
	}
}

func dropped(s *Server) (n int) {
	for _, c := range s.conns.all() {
		if c.out.isEnded() {
			n++
		}
	}
	return n
}

func (b *budget) waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.mu.waiting)
}

func (b *budget) left() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.left
}
