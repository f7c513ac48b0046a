package server

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// start runs a server on an in-memory disk until the test ends.
func start(t testing.TB, fs vfs.FS, change func(*Config)) *Server {
	t.Helper()
	s, stop := launch(t, fs, change)
	t.Cleanup(func() {
		if err := stop(); err != nil && !t.Failed() {
			t.Errorf("server ended with %v", err)
		}
	})
	return s
}

// peer is a client that speaks the protocol by hand.
type peer struct {
	t      *testing.T
	socket net.Conn
	id     zk.SessionID
	pass   zk.Password
	xid    zk.Xid
	events []zk.Event
}

func dial(t *testing.T, s *Server, old *peer) *peer {
	t.Helper()
	socket, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return greet(t, socket, old)
}

// greet performs the handshake on a connection, which ends with the test.
func greet(t *testing.T, socket net.Conn, old *peer) *peer {
	t.Helper()
	t.Cleanup(func() { socket.Close() })
	p := &peer{t: t, socket: socket}
	req := wire.ConnectRequest{TimeoutMs: 5000, Password: make([]byte, 16), HasReadOnly: true}
	if old != nil {
		req.Session, req.Password = old.id, old.pass[:]
	}
	socket.Write(wire.AppendConnectRequest(nil, &req))
	res, err := wire.DecodeConnectResponse(p.frame())
	if err != nil {
		t.Fatal(err)
	}
	p.id, p.pass = res.Session, res.Password
	return p
}

func (p *peer) frame() []byte {
	p.t.Helper()
	p.socket.SetReadDeadline(time.Now().Add(20 * time.Second))
	payload, err := readFrame(p.socket)
	if err != nil {
		p.t.Fatalf("read: %v", err)
	}
	return payload
}

func readFrame(r io.Reader) ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	payload := make([]byte, binary.BigEndian.Uint32(head))
	_, err := io.ReadFull(r, payload)
	return payload, err
}

// send sends requests in one write.
func (p *peer) send(requests ...zk.Request) {
	var b []byte
	for i := range requests {
		p.xid++
		requests[i].Xid = p.xid
		b = wire.AppendRequest(b, &requests[i])
	}
	p.socket.Write(b)
}

// reply reads the next reply; events that arrive before it are kept.
func (p *peer) reply(op zk.Op) (wire.ReplyHeader, zk.Result) {
	p.t.Helper()
	for {
		h, body, err := wire.DecodeReplyHeader(p.frame())
		if err != nil {
			p.t.Fatal(err)
		}
		if h.Xid == zk.XidNotification {
			e, err := wire.DecodeEvent(h, body)
			if err != nil {
				p.t.Fatal(err)
			}
			p.events = append(p.events, e)
			continue
		}
		if h.Code != zk.OK {
			return h, zk.Result{}
		}
		r, err := wire.DecodeResult(op, len(body), body)
		if err != nil {
			p.t.Fatal(err)
		}
		return h, r
	}
}

func (p *peer) do(r zk.Request) (zk.Code, zk.Result) {
	p.t.Helper()
	p.send(r)
	h, res := p.reply(r.Op)
	if h.Xid != p.xid {
		p.t.Fatalf("reply to %d, want %d", h.Xid, p.xid)
	}
	return h.Code, res
}

func create(path, data string, mode zk.CreateMode) zk.Request {
	return zk.Request{Op: zk.OpCreate, Path: path, Data: []byte(data), ACL: zk.OpenACL(), Mode: mode}
}

// Attaching to a session again is the first thing to test.
func TestReconnectingClientKeepsSessionAndEphemerals(t *testing.T) {
	s := start(t, vfs.NewMem(), nil)
	a := dial(t, s, nil)
	if code, _ := a.do(create("/e", "mine", zk.Ephemeral)); code != zk.OK {
		t.Fatal(code)
	}
	a.socket.Close()
	b := dial(t, s, a)
	if b.id != a.id || b.pass != a.pass {
		t.Fatalf("got session %s, had %s", b.id, a.id)
	}
	code, res := b.do(zk.Request{Op: zk.OpGetData, Path: "/e"})
	if code != zk.OK || string(res.Data) != "mine" || res.Stat.EphemeralOwner != int64(a.id) {
		t.Fatalf("%v %q owner %#x", code, res.Data, res.Stat.EphemeralOwner)
	}
	wrong := *a
	wrong.pass[0]++
	if c := dial(t, s, &wrong); c.id != 0 {
		t.Fatal("a wrong password was accepted")
	}
}

func TestRepliesComeInOrderAndReadsSeeOwnWrites(t *testing.T) {
	s := start(t, vfs.NewMem(), nil)
	p := dial(t, s, nil)
	p.do(create("/n", "", 0))
	const rounds = 300
	var batch []zk.Request
	for i := range rounds {
		batch = append(batch, zk.Request{Op: zk.OpSetData, Path: "/n", Data: fmt.Append(nil, i), Version: -1},
			zk.Request{Op: zk.OpGetData, Path: "/n"}, zk.Request{Op: zk.OpPing}, zk.Request{Op: zk.OpSync, Path: "/n"})
	}
	first := p.xid + 1
	go p.send(batch...)
	for i := range batch {
		h, res := p.reply(batch[i].Op)
		if h.Xid != first+int32(i) || h.Code != zk.OK {
			t.Fatalf("reply %d, %v; want %d", h.Xid, h.Code, first+int32(i))
		}
		if batch[i].Op == zk.OpGetData && string(res.Data) != fmt.Sprint(i/4) {
			t.Fatalf("read %q after writing %d", res.Data, i/4)
		}
	}
}

func TestEventComesBeforeTheReplyThatShowsTheChange(t *testing.T) {
	s := start(t, vfs.NewMem(), nil)
	p := dial(t, s, nil)
	p.do(create("/w", "", 0))
	p.do(zk.Request{Op: zk.OpGetData, Path: "/w", Watch: true})
	p.do(zk.Request{Op: zk.OpSetData, Path: "/w", Data: []byte("1"), Version: -1})
	if len(p.events) != 1 || p.events[0].Type != zk.EventNodeDataChanged {
		t.Fatalf("events %v", p.events)
	}
}

func TestSilentSessionExpiresWithItsEphemeralsInOneTransaction(t *testing.T) {
	now := clock.NewManual(0)
	s := start(t, vfs.NewMem(), func(c *Config) { c.Clock, c.SessionMin, c.SessionMax = now, time.Second, 4*time.Second })
	a, b := dial(t, s, nil), dial(t, s, nil)
	for i := range 5 {
		a.do(create(fmt.Sprintf("/e%d", i), "", zk.Ephemeral))
	}
	b.do(zk.Request{Op: zk.OpAddWatch, Path: "/", Watches: zk.WatchPersistentRecursive})
	awaittest.Until(t, "five ephemerals deleted", func() bool {
		now.Advance(s.cfg.TickTime / 4)
		b.do(zk.Request{Op: zk.OpSync, Path: "/"}) // b's own requests keep it alive, a is silent; the loop has a step for each
		return len(b.events) >= 5
	})
	for _, e := range b.events {
		if e.Type != zk.EventNodeDeleted || e.Zxid != b.events[0].Zxid {
			t.Fatalf("events %v", b.events)
		}
	}
	if _, err := a.socket.Read(make([]byte, 1)); err != io.EOF {
		t.Fatalf("the expired client's connection: %v", err)
	}
}

func TestEverythingSurvivesARestart(t *testing.T) {
	fs := vfs.NewMem()
	cfg := Default()
	cfg.FS, cfg.DataDir, cfg.ClientAddr, cfg.PreallocBytes, cfg.SnapCount = fs, "/data", "127.0.0.1:0", 1<<20, 100
	cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	var a *peer
	for round := range 4 {
		s, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		a = dial(t, s, a)
		for i := range 150 {
			if code, _ := a.do(create(fmt.Sprintf("/r%d-%d", round, i), "x", zk.CreateMode(i%2))); code != zk.OK {
				t.Fatal(code)
			}
		}
		_, res := a.do(zk.Request{Op: zk.OpGetEphemerals, Path: "/"})
		if len(res.Children) != 75*(round+1) {
			t.Fatalf("round %d: %d ephemerals", round, len(res.Children))
		}
		if s.recovery.DigestMismatches != 0 || s.Status().Counts.DigestMismatches != 0 {
			t.Fatal("digests differ")
		}
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
}

func TestUnknownOperationIsAnsweredAndEndsTheConnection(t *testing.T) {
	s := start(t, vfs.NewMem(), nil)
	for _, op := range []zk.Op{0, -1, -10, 13, 20, 999} {
		p := dial(t, s, nil)
		p.send(zk.Request{Op: op})
		h, _ := p.reply(op)
		if h.Code != zk.ErrUnimplemented || h.Zxid != zk.NoZxid {
			t.Errorf("op %d: %+v", op, h)
		}
		if _, err := p.socket.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("op %d: connection stays open: %v", op, err)
		}
	}
}

func TestRequestsAfterTheHandshakeInOneSegmentAreServed(t *testing.T) {
	s := start(t, vfs.NewMem(), nil)
	socket, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	b := wire.AppendConnectRequest(nil, &wire.ConnectRequest{TimeoutMs: 5000, Password: make([]byte, 16)})
	c := create("/behind", strings.Repeat("x", 100_000), 0)
	c.Xid = 1
	b = wire.AppendRequest(b, &c)
	b = wire.AppendRequest(b, &zk.Request{Op: zk.OpGetData, Xid: 2, Path: "/behind"})
	socket.Write(b)
	p := &peer{t: t, socket: socket}
	if n := len(p.frame()); n != 36 {
		t.Fatalf("handshake of %d bytes to an old client, want 36", n)
	}
	if h, _ := p.reply(zk.OpCreate); h.Code != zk.OK {
		t.Fatal(h)
	}
	if h, res := p.reply(zk.OpGetData); h.Code != zk.OK || len(res.Data) != 100_000 {
		t.Fatal(h, len(res.Data))
	}
}
