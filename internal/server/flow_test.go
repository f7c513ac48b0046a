package server

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// big creates a znode of n bytes.
func big(p *peer, path string, n int) {
	p.t.Helper()
	if code, _ := p.do(create(path, strings.Repeat("x", n), 0)); code != zk.OK {
		p.t.Fatal(code)
	}
}

// One packet of small requests may ask for more than the outbox holds: a client that reads gets
// it all, in order.
func TestPipelinedReadsOfLargeZnodesDoNotOverflowTheOutbox(t *testing.T) {
	s := start(t, vfs.NewMem(), func(c *Config) {
		c.OutboxBytesMax = 4 << 20
		c.SessionMin, c.SessionMax = time.Minute, time.Minute // the peer sends no pings
	})
	p := dial(t, s, nil)
	big(p, "/big", 100_000)
	for _, afterWrite := range []bool{false, true} {
		var batch []zk.Request
		if afterWrite {
			batch = append(batch, zk.Request{Op: zk.OpSetData, Path: "/zookeeper", Version: -1})
		}
		for range 300 {
			batch = append(batch, zk.Request{Op: zk.OpGetData, Path: "/big"})
		}
		first := p.xid + 1
		p.send(batch...)
		for i := range batch {
			h, res := p.reply(batch[i].Op)
			if h.Xid != first+int32(i) || batch[i].Op == zk.OpGetData && len(res.Data) != 100_000 {
				t.Fatalf("after a write %t: reply %d is %+v with %d bytes", afterWrite, i, h, len(res.Data))
			}
		}
	}
}

// The same for answers that become long by a write before them, for which they wait.
func TestPipelinedReadsBehindALongWriteAreAnswered(t *testing.T) {
	s := start(t, vfs.NewMem(), func(c *Config) { c.SessionMin, c.SessionMax = time.Minute, time.Minute })
	p := dial(t, s, nil)
	children := zk.Request{Op: zk.OpMulti}
	for n := range 2000 {
		children.Ops = append(children.Ops, create(fmt.Sprintf("/n/%04d", n), "", 0))
	}
	for _, bytes := range []int{20_000, 100_000, 1_000_000} {
		for _, op := range []zk.Op{zk.OpGetData, zk.OpGetChildren2} {
			p.must(zk.OK, create("/n", "", 0))
			batch := []zk.Request{{Op: zk.OpSetData, Path: "/n", Data: make([]byte, bytes), Version: -1}}
			if op == zk.OpGetChildren2 {
				batch[0] = zk.Request{Op: zk.OpMulti, Ops: children.Ops[:bytes/500]}
			}
			for range min(3*readsBehindMax, 64_000_000/bytes) {
				batch = append(batch, zk.Request{Op: op, Path: "/n"})
			}
			var sent sync.WaitGroup
			sent.Go(func() { p.send(batch...) })
			for i := range batch {
				if h, r := p.reply(batch[i].Op); h.Code != zk.OK || i > 0 && len(r.Data) != bytes && len(r.Children) != bytes/500 {
					t.Fatalf("%s behind %d bytes: reply %d is %+v with %d bytes", op, bytes, i, h, len(r.Data))
				}
			}
			sent.Wait()
			for n := range batch[0].Ops {
				p.must(zk.OK, zk.Request{Op: zk.OpDelete, Path: batch[0].Ops[n].Path, Version: -1})
			}
			p.must(zk.OK, zk.Request{Op: zk.OpDelete, Path: "/n", Version: -1})
		}
	}
}

// The same for answers that are made within the budget for long ones, each by itself.
func TestPipelinedLongAnswersDoNotOverflowTheOutbox(t *testing.T) {
	s := start(t, vfs.NewMem(), func(c *Config) {
		c.OutboxBytesMax = 4 << 20
		c.SessionMin, c.SessionMax = time.Minute, time.Minute // the peer sends no pings
	})
	p := dial(t, s, nil)
	big(p, "/big", 700_000)
	var batch []zk.Request
	for range 60 {
		batch = append(batch, zk.Request{Op: zk.OpMultiRead, Ops: []zk.Request{{Op: zk.OpGetData, Path: "/big"}, {Op: zk.OpGetData, Path: "/big"}}})
	}
	first := p.xid + 1
	p.send(batch...)
	for i := range batch {
		if h, res := p.reply(zk.OpMultiRead); h.Xid != first+int32(i) || len(res.Sub) != 2 || len(res.Sub[1].Data) != 700_000 {
			t.Fatalf("reply %d is %+v with %d parts", i, h, len(res.Sub))
		}
	}
}

// One short multiRead may read the same long znode a thousand times.
func TestMultiReadBeyondAllBoundsIsRefused(t *testing.T) {
	s := start(t, vfs.NewMem(), nil)
	p := dial(t, s, nil)
	big(p, "/big", 100_000)
	var ops []zk.Request
	for range 40_000 {
		ops = append(ops, zk.Request{Op: zk.OpGetData, Path: "/big"})
	}
	if code, _ := p.do(zk.Request{Op: zk.OpMultiRead, Ops: ops}); code != zk.ErrMarshalling {
		t.Fatalf("answered %v", code)
	}
	if code, res := p.do(zk.Request{Op: zk.OpMultiRead, Ops: ops[:20]}); code != zk.OK || len(res.Sub) != 20 {
		t.Fatalf("answered %v", code)
	}
}

// "auth" stands for every identity of the connection, so a short request can become a
// transaction that is too long for the log.
func TestRequestThatBecomesTooLongATransactionIsRefused(t *testing.T) {
	// The peer sends no pings, and a busy machine takes its time for a million entries.
	s := start(t, vfs.NewMem(), func(c *Config) { c.SessionMin, c.SessionMax = time.Minute, time.Minute })
	p := dial(t, s, nil)
	for i := range identitiesMax - 1 {
		p.do(zk.Request{Op: zk.OpAuth, Scheme: "digest", Data: fmt.Appendf(nil, "user%d:secret", i)})
	}
	r := create("/bomb", "", 0)
	r.ACL = nil
	for perms := range zk.Perms(10_000) {
		r.ACL = append(r.ACL, zk.ACL{Perms: perms, Identity: zk.Identity{Scheme: "auth"}})
	}
	if code, _ := p.do(r); code != zk.ErrBadArguments {
		t.Fatalf("answered %v", code)
	}
	if code, _ := p.do(create("/fine", "", 0)); code != zk.OK {
		t.Fatalf("answered %v", code)
	}
}

// The list of ephemerals of a session may be longer than any transaction.
func TestSessionWithVeryManyEphemeralsEnds(t *testing.T) {
	disk := vfs.NewMem()
	s, stop := launch(t, disk, func(c *Config) { c.SessionMin, c.SessionMax = time.Minute, time.Minute }) // they send no pings
	p, q := dial(t, s, nil), dial(t, s, nil)
	const parts, each = 10, 3000
	for part := range parts {
		r := zk.Request{Op: zk.OpMulti}
		for i := range each {
			r.Ops = append(r.Ops, create(fmt.Sprintf("/ephemeral-%s-%d-%d", strings.Repeat("n", 80), part, i), "", zk.Ephemeral))
		}
		if code, _ := p.do(r); code != zk.OK {
			t.Fatal(code)
		}
	}
	if code, _ := p.do(zk.Request{Op: zk.OpCloseSession}); code != zk.OK {
		t.Fatal(code)
	}
	code, res := q.do(zk.Request{Op: zk.OpExists, Path: "/"})
	if code != zk.OK || res.Stat.NumChildren != 1 {
		t.Fatalf("%v, %d children left", code, res.Stat.NumChildren)
	}
	zxid, digest := s.Digest()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	again := start(t, disk, nil)
	if z, d := again.Digest(); z != zxid || d != digest {
		t.Fatalf("restart at %s with digest %d, was at %s with %d", z, d, zxid, digest)
	}
}

// A client that never reads is disconnected when too much waits for it, and nobody else
// notices.
func TestClientThatDoesNotReadItsEventsIsDisconnected(t *testing.T) {
	s := start(t, vfs.NewMem(), func(c *Config) { c.OutboxBytesMax, c.TickTime = 2<<20, 2*time.Second })
	slow, p := dial(t, s, nil), dial(t, s, nil)
	slow.socket.(*net.TCPConn).SetReadBuffer(4 << 10)
	slow.do(zk.Request{Op: zk.OpAddWatch, Path: "/", Watches: zk.WatchPersistentRecursive})
	path := "/" + strings.Repeat("p", 4000)
	p.do(create(path, "", 0))
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
		if i > 200 {
			t.Fatal("80 MB of events later the client is still here")
		}
	}
	if again := dial(t, s, slow); again.id != slow.id {
		t.Fatal("the session went with the connection")
	}
}

// A reader that stops in the middle of long replies is not served any more, holds a bounded
// outbox, and does not outlive its session.
func TestStuckReaderGoesWithItsSession(t *testing.T) {
	s, stop := launch(t, vfs.NewMem(), nil)
	s.closeGrace = 50 * time.Millisecond
	stuck := dial(t, s, nil)
	big(stuck, "/big", 500_000)
	var batch []zk.Request
	for range 400 {
		batch = append(batch, zk.Request{Op: zk.OpGetData, Path: "/big"})
	}
	stuck.send(batch...)
	c := s.conns.all()[0]
	queued := func() int {
		c.out.mu.Lock()
		defer c.out.mu.Unlock()
		if !c.out.writing {
			return 0
		}
		return max(1, len(c.out.bytes))
	}
	awaittest.Until(t, "the writer waits for the client", func() bool { return queued() > 0 })
	if n := queued(); n > outboxCrowded+1_000_000 {
		t.Errorf("%d bytes wait for a client that does not read", n)
	}
	dial(t, s, stuck) // takes the session over; the stuck connection must end
	awaittest.Until(t, "the stuck connection has gone", func() bool { return s.conns.get(c.id) == nil })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

func TestRefusedCloseOnAFullDiskEndsTheConnection(t *testing.T) {
	disk := vfs.NewMem()
	s := start(t, disk, func(c *Config) { c.PreallocBytes = 32 << 10 })
	p := dial(t, s, nil)
	p.do(create("/n", "", 0))
	fills(disk)
	for i := 0; !s.diskFull.Load(); i++ {
		p.do(zk.Request{Op: zk.OpSetData, Path: "/n", Data: make([]byte, 1000), Version: -1})
	}
	p.send(zk.Request{Op: zk.OpCloseSession})
	if h, _ := p.reply(zk.OpCloseSession); h.Code != zk.ErrNotReadOnly {
		t.Fatal(h)
	}
	if n, err := io.Copy(io.Discard, p.socket); n != 0 || err != nil {
		t.Fatalf("%d bytes, %v", n, err)
	}
	disk.SetCapacity(-1)
}

// Reads that are answered outside the loop and requests that go through it come back in one
// order, whatever the mixture is and however the bytes are divided.
func TestEveryMixtureIsAnsweredInOrder(t *testing.T) {
	s := start(t, vfs.NewMem(), nil)
	p := dial(t, s, nil)
	p.do(create("/n", "", 0))
	var b []byte
	var ops []zk.Op
	for i := range 4000 {
		r := zk.Request{Op: zk.OpGetData, Path: "/n"}
		switch {
		case i%97 == 0:
			r = zk.Request{Op: zk.OpAuth, Scheme: "digest", Data: []byte("bob:secret")}
		case i*i%13 == 1:
			r = zk.Request{Op: zk.OpSetData, Path: "/n", Version: -1}
		case i%11 == 0:
			r = zk.Request{Op: zk.OpMulti}
		case i%7 == 0:
			r = zk.Request{Op: zk.OpExists, Path: "/missing", Watch: true}
		}
		r.Xid = p.xid + int32(i) + 1
		ops = append(ops, r.Op)
		b = wire.AppendRequest(b, &r)
	}
	go func() {
		for cut := 1; len(b) > 0; cut = cut*7%1000 + 1 {
			n := min(cut, len(b))
			p.socket.Write(b[:n])
			b = b[n:]
		}
	}()
	for i, op := range ops {
		if h, _ := p.reply(op); h.Xid != p.xid+int32(i)+1 {
			t.Fatalf("reply %d has xid %d", i, h.Xid)
		}
	}
	c := s.conns.all()[0]
	awaittest.Until(t, "nothing is counted any more", func() bool { // a reply may be sent before it is counted
		c.out.mu.Lock()
		defer c.out.mu.Unlock()
		return len(c.stats.waiting) == 0 && s.inFlight.Load() == 0
	})
}

// A request that waits for space in the outbox is woken when the writer fails.
func TestFailedWriteWakesWhoWaitsForSpace(t *testing.T) {
	s := start(t, vfs.NewMem(), nil)
	for range 200 {
		server, client := net.Pipe()
		c := newConn(s, server)
		c.out.bytes = []byte("blocks the writer")
		go c.flush()
		awaittest.Until(t, "the writer has begun", func() bool {
			c.out.mu.Lock()
			defer c.out.mu.Unlock()
			return c.out.writing
		})
		c.out.mu.Lock()
		c.out.bytes = make([]byte, outboxCrowded+1)
		c.out.mu.Unlock()
		woken := make(chan bool, 1)
		go func() { woken <- c.uncrowded() }()
		client.Close()
		select {
		case <-woken:
		case <-time.After(10 * time.Second):
			t.Fatal("nobody woke the one who waits")
		}
	}
}

func TestConnectionProvesABoundedNumberOfIdentities(t *testing.T) {
	s := start(t, vfs.NewMem(), nil)
	p := dial(t, s, nil)
	proved := 0
	for ; ; proved++ {
		r := zk.Request{Op: zk.OpAuth, Scheme: "digest", Data: fmt.Appendf(nil, "user%d:secret", proved)}
		if code, _ := p.do(r); code == zk.ErrAuthFailed {
			break
		} else if code != zk.OK || proved > 1000 {
			t.Fatalf("%d: %v", proved, code)
		}
	}
	if want := identitiesMax - 1; proved != want { // one is its address
		t.Errorf("%d, want %d", proved, want)
	}
	if again := dial(t, s, p); again.id != p.id {
		t.Error("the session went with the connection")
	}
}

// A client that pipelines requests after the end of its session gets the answer to the end, and
// then a clean close, not a reset that might overtake the answer.
func TestRequestsAfterCloseSessionDoNotResetTheConnection(t *testing.T) {
	s := start(t, vfs.NewMem(), func(c *Config) { c.SessionMin, c.SessionMax = time.Minute, time.Minute })
	for range 20 {
		p := dial(t, s, nil)
		requests := []zk.Request{{Op: zk.OpCloseSession}}
		for range 50_000 {
			requests = append(requests, zk.Request{Op: zk.OpPing})
		}
		sent, reader := make(chan struct{}), worker{peer: *p}
		go func() { defer close(sent); p.send(requests...) }()
		h, ok := reader.answer()
		if !ok || h.Code != zk.OK {
			t.Fatalf("the answer to closeSession: %v, %t", h.Code, ok)
		}
		if n, err := io.Copy(io.Discard, p.socket); n != 0 || err != nil {
			t.Fatalf("after it: %d bytes, %v", n, err)
		}
		<-sent
		p.socket.Close()
	}
}

// A client that sends an invalid request gets the earlier answers, and then a clean close, as
// from Apache's server, not a reset that might overtake the answers.
func TestInputThatNobodyCanReadDoesNotResetTheConnection(t *testing.T) {
	s := start(t, vfs.NewMem(), nil)
	rest := make([]byte, 300_000)
	for what, frame := range map[string][]byte{
		"an empty request":               {0, 0, 0, 0},
		"a negative length":              {255, 255, 255, 255},
		"one that is too long":           {127, 0, 0, 0},
		"one whose parts are missing":    {0, 0, 0, 8, 0, 0, 0, 9, 0, 0, 0, 1},
		"an operation that nobody knows": {0, 0, 0, 8, 0, 0, 0, 9, 0, 0, 99, 1},
	} {
		for range 20 {
			p := dial(t, s, nil)
			sent := make(chan struct{})
			p.send(zk.Request{Op: zk.OpGetData, Path: "/"})
			go func() {
				defer close(sent)
				_, _ = p.socket.Write(append(frame, rest...))
			}()
			if h, _ := p.reply(zk.OpGetData); h.Code != zk.OK {
				t.Fatalf("%s: the answer before it is %v", what, h.Code)
			}
			if _, err := io.Copy(io.Discard, p.socket); err != nil {
				t.Fatalf("after %s: %v", what, err)
			}
			<-sent
			p.socket.Close()
		}
	}
}
