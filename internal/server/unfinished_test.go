package server

import (
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

func (l *laggards) total() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes
}

// Long requests that begin and do not end together take no more memory than they may, and no
// client has proved anything before its first request has ended. Beyond the limit, those of the
// address with the most memory are ended: a client elsewhere that takes its time can finish its
// own.
func TestUnfinishedRequestsAreBounded(t *testing.T) {
	log := &awaittest.Log{}
	const budget, strangers = unfinishedLeast * wire.FrameBytesMax, 2 * unfinishedLeast
	s := start(t, vfs.NewMem(), func(c *Config) {
		c.InputBudget, c.Logger = 0, slog.New(slog.NewTextHandler(log, nil))
		c.SessionMin, c.SessionMax = time.Hour, time.Hour // no session ends meanwhile, and no connection with it
	})
	frame := wire.AppendRequest(nil, &zk.Request{Op: zk.OpCreate, Path: "/long", Data: make([]byte, 1_000_000), ACL: zk.OpenACL(), Xid: 1})
	var all []*peer
	begin := func() {
		p := dial(t, s, nil)
		_, _ = p.socket.Write(frame[:900_000]) // it may be gone by now
		all = append(all, p)
	}
	for range 5 {
		begin()
	}
	awaittest.Until(t, "five have begun", func() bool { return s.unfinished.total() >= 5*900_000 })
	elsewhere := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	socket, err := elsewhere.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	honest := &peer{t: t, socket: socket}
	socket.Write(wire.AppendConnectRequest(nil, &wire.ConnectRequest{TimeoutMs: 60_000, Password: make([]byte, 16), HasReadOnly: true}))
	honest.frame()
	socket.Write(frame[:500_000])
	awaittest.RealTime(20*time.Millisecond, "what was begun before was held for longer")
	for range strangers {
		begin()
	}
	awaittest.Until(t, "those have gone for which there is no space", func() bool { return s.conns.count.Load() <= unfinishedLeast+1 })
	if n := s.unfinished.total(); n > budget {
		t.Errorf("%d bytes of unfinished requests, %d may be", n, budget)
	}
	socket.Write(frame[500_000:])
	if h, _ := honest.reply(zk.OpCreate); h.Code != zk.OK {
		t.Error(h.Code)
	}
	if n := s.lines(log, "does not finish it"); n != 1 {
		t.Errorf("the log tells of it %d times", n)
	}
	for _, p := range all {
		p.socket.Close()
	}
	awaittest.Until(t, "nothing is kept of those who have gone", func() bool { return s.unfinished.total() == 0 })
}
