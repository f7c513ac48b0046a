package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// One short request may ask a long ACL very often, or look at very many znodes. Others
// must not wait for it. It takes some milliseconds, and took minutes when each part went
// through the whole list: longAtMost is for a busy machine.
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

// A read that looks at very many znodes is followed by a writer's turn.
func TestWritersTakeTheirTurnBetweenLongReads(t *testing.T) {
	stranger, _, s := strangers(t)
	for i := 0; i < 30_000; {
		r := zk.Request{Op: zk.OpMulti}
		for ; len(r.Ops) < 10_000; i++ {
			r.Ops = append(r.Ops, create(fmt.Sprint("/e", i), "", zk.Ephemeral))
		}
		if code, _ := stranger.do(r); code != zk.OK {
			t.Fatal(code)
		}
	}
	const reads, few = 60, 20
	all := make([]zk.Request, reads)
	for i := range all {
		all[i] = zk.Request{Op: zk.OpGetEphemerals, Path: "/x"}
	}
	var waited int64
	for range 5 { // the test itself may be late
		begun := s.stats.received.Load()
		stranger.send(all...)
		awaittest.Until(t, "the first read is there", func() bool { return s.stats.received.Load() > begun })
		before := s.stats.received.Load()
		s.reader.Tree.Lock()
		waited = s.stats.received.Load() - before
		s.reader.Tree.Unlock()
		for range all {
			stranger.reply(zk.OpGetEphemerals)
		}
		if waited < few {
			return
		}
	}
	t.Errorf("a writer has waited for %d of %d long reads", waited, reads)
}
