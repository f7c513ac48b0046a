package server

import (
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// Each client gets its own replies, whole and in order, while the buffers in which they are
// gathered pass from one connection to another. Some clients read nothing until the server can
// send them no more, the others continue all the time, and writes come in between.
func TestRepliesInLoansReachTheirClients(t *testing.T) {
	const clients, batch = 3, 12 // of each kind
	s := start(t, vfs.NewMem(), nil)
	var slow, fast sync.WaitGroup
	done := make(chan struct{})
	for i := range 2 * clients {
		p := dial(t, s, nil)
		path := fmt.Sprintf("/of-%d", i)
		data := strings.Repeat(fmt.Sprint(i), 200*(i+1))
		p.do(create(path, data, 0))
		var requests []zk.Request
		for range batch {
			requests = append(requests, zk.Request{Op: zk.OpGetData, Path: path})
		}
		read := func() bool {
			for n := range requests {
				h, r := p.reply(requests[n].Op)
				if h.Code != zk.OK || requests[n].Op == zk.OpGetData && string(r.Data) != data {
					t.Errorf("client %d, reply %d: %v, and %d bytes of data that are not its own", i, n, h, len(r.Data))
					return false
				}
			}
			return true
		}
		if i%2 == 0 {
			requests = append(requests, zk.Request{Op: zk.OpSetData, Path: path, Data: []byte(data), Version: -1})
			fast.Go(func() {
				for {
					select {
					case <-done:
						return
					default:
					}
					if p.send(requests...); !read() {
						return
					}
				}
			})
			continue
		}
		p.socket.(*net.TCPConn).SetReadBuffer(64 << 10)
		c := connOf(s, p.id)
		slow.Go(func() {
			for rounds := int64(1); ; rounds++ {
				p.send(requests...)
				handled := int64(1 + batch*int(rounds)) // and the request that has created the znode
				awaittest.Until(t, "the server has a batch", func() bool { return c.handledOrWrites(handled) })
				if c.handledOrWrites(math.MaxInt64) {
					for range rounds {
						if !read() {
							return
						}
					}
					return
				}
			}
		})
	}
	slow.Wait()
	close(done)
	fast.Wait()
}

// connOf is the connection that a session has.
func connOf(s *Server, id zk.SessionID) *conn {
	for _, c := range s.conns.all() {
		if zk.SessionID(c.sessionID.Load()) == id {
			return c
		}
	}
	return nil
}

// handledOrWrites reports whether the given number of requests was received, or replies wait
// for the client.
func (c *conn) handledOrWrites(received int64) bool {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	return c.stats.received >= received || c.out.writing
}

// Replies that have to wait for a client hold no loan, and sent replies leave none.
func TestWhatWaitsHoldsNoLoan(t *testing.T) {
	loan := loans.Get().(*[loanBytes]byte)[:0]
	rest := unsent(append(loan, "sent and not sent"...), len("sent and "))
	if string(rest) != "not sent" || cap(rest) >= loanBytes {
		t.Errorf("%q with space for %d bytes waits", rest, cap(rest))
	}
	for _, c := range []struct{ space, keeps int }{{loanBytes, 0}, {outboxKeep, outboxKeep}, {outboxKeep + 1, 0}} {
		if kept := spareOf(make([]byte, 10, c.space)); cap(kept) != c.keeps {
			t.Errorf("of %d bytes that were sent the outbox keeps %d, not %d", c.space, cap(kept), c.keeps)
		}
	}
}

// The allocations for a batch of reads do not depend on their number.
func TestBatchOfReadsAllocatesForItsWriteAlone(t *testing.T) {
	s := start(t, vfs.NewMem(), func(c *Config) { c.Clock = clock.NewManual(clock.Instant(time.Hour)) }) // its ticks allocate
	p := dial(t, s, nil)
	p.do(create("/a", strings.Repeat("x", 100), 0))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	far, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	near, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	c := newConn(s, near) // of no goroutine of the server
	c.sessionID.Store(int64(p.id))
	var input []byte
	for xid := range 64 {
		input = wire.AppendRequest(input, &zk.Request{Op: zk.OpGetData, Xid: zk.Xid(xid + 1), Path: "/a"})
		input = wire.AppendRequest(input, &zk.Request{Op: zk.OpExists, Xid: zk.Xid(xid + 1), Path: "/a"})
	}
	w := scratches.Get().(*scratch)
	batch := func() {
		c.input.rest = input
		if !c.handle(w) {
			t.Fatal("the connection has ended")
		}
	}
	batch()
	replies := make([]byte, 64<<10)
	n, err := far.Read(replies)
	if err != nil {
		t.Fatal(err)
	}
	replies = replies[:n]
	batches := func() {
		for range 50 {
			batch()
			if _, err := io.ReadFull(far, replies); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := testing.AllocsPerRun(10, batches); got > 50*6 { // four for each write to a socket
		t.Errorf("50 batches of 128 reads allocate %v times", got)
	}
}
