package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// One short request may check a long ACL very often, or look at very many znodes. Others must
// not wait for it. It takes some milliseconds, and took minutes when each part went through the
// whole list: longAtMost is for a busy machine.
const longAtMost = 10 * time.Second

// longACL is a list of 40,000 addresses, the last of which is that of the tests.
func longACL(salt int, more ...zk.ACL) []zk.ACL {
	list := make([]zk.ACL, 40_000)
	for i := range list {
		list[i] = zk.ACL{Perms: zk.PermRead, Identity: zk.Identity{Scheme: "ip", ID: fmt.Sprintf("2.%d.%d.%d", salt, i>>8, i&255)}}
	}
	return append(list, more...)
}

// made creates znodes with such lists, numbered.
func made(p *peer, n int, more ...zk.ACL) {
	p.t.Helper()
	for i := range n {
		if code, _ := p.do(zk.Request{Op: zk.OpCreate, Path: fmt.Sprint("/", i), ACL: longACL(i, more...)}); code != zk.OK {
			p.t.Fatal(code)
		}
	}
}

// nobodyWaits sends a request, and then another client writes.
func nobodyWaits(t *testing.T, stranger, other *peer, r zk.Request) {
	t.Helper()
	stranger.send(r)
	began := time.Now()
	if h, _ := stranger.reply(r.Op); h.Code != zk.OK {
		t.Fatalf("the request is refused: %v", h.Code)
	}
	if code, _ := other.do(zk.Request{Op: zk.OpSetData, Path: "/o", Version: -1}); code != zk.OK {
		t.Fatal(code)
	}
	if took := time.Since(began); took > longAtMost {
		t.Errorf("a request of %d parts and another client's write took %v", len(r.Ops), took)
	}
}

// strangers are two clients, and a znode of the second.
func strangers(t *testing.T) (stranger, other *peer, s *Server) {
	s = start(t, vfs.NewMem(), func(c *Config) { c.TickTime = 10 * time.Second })
	stranger, other = dial(t, s, nil), dial(t, s, nil)
	if code, _ := other.do(create("/o", "", 0)); code != zk.OK {
		t.Fatal(code)
	}
	return stranger, other, s
}

func TestManyReadsOfALongListKeepNobodyWaiting(t *testing.T) {
	stranger, other, _ := strangers(t)
	made(stranger, 1)
	r := zk.Request{Op: zk.OpMultiRead}
	for range 20_000 {
		r.Ops = append(r.Ops, zk.Request{Op: zk.OpGetData, Path: "/0"})
	}
	nobodyWaits(t, stranger, other, r)
}

func TestWatchersOfLongListsKeepNobodyWaiting(t *testing.T) {
	stranger, other, s := strangers(t)
	made(stranger, 2, zk.ACL{Perms: zk.PermWrite, Identity: zk.Identity{Scheme: "world", ID: "anyone"}})
	for range 50 {
		w := dial(t, s, nil)
		w.do(zk.Request{Op: zk.OpAddWatch, Path: "/0", Watches: zk.WatchPersistent})
		w.do(zk.Request{Op: zk.OpAddWatch, Path: "/1", Watches: zk.WatchPersistent})
	}
	r := zk.Request{Op: zk.OpMulti}
	for i := range 400 {
		r.Ops = append(r.Ops, zk.Request{Op: zk.OpSetData, Path: fmt.Sprint("/", i%2), Version: -1})
	}
	nobodyWaits(t, stranger, other, r)
}

// A read that looks at very many znodes is followed by a writer's turn: a writer that arrives
// while the first of many is made waits only for that one.
func TestWritersTakeTheirTurnBetweenLongReads(t *testing.T) {
	s := start(t, vfs.NewMem(), nil)
	p := dial(t, s, nil)
	all := make([]zk.Request, lockedReads/2)
	for i := range all {
		all[i] = zk.Request{Op: zk.OpGetEphemerals, Path: "/x"}
	}
	c := s.conns.all()[0]
	sent := func() int64 {
		c.out.mu.Lock()
		defer c.out.mu.Unlock()
		return c.stats.sent
	}
	before := sent()
	if n := turnAfter(t, s, p, sent, "(*handling).read", all...) - before; n != 1 {
		t.Errorf("a writer has waited for %d of %d long reads", n, len(all))
	}
	for range all {
		if h, _ := p.reply(zk.OpGetEphemerals); h.Code != zk.OK {
			t.Error(h.Code)
		}
	}
}
