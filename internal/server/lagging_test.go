package server

import (
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/bubble"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// Many clients that lag a little are as bad as one that lags a lot: together they must stay
// within the budget, and what they held is released.
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

// TestMegabytesOfManyClientsStayWithinTheBudget: no connection has more than a megabyte, and
// together they have too much. A client that reads what it is sent stays.
func TestMegabytesOfManyClientsStayWithinTheBudget(t *testing.T) {
	const budget, lagging = 4 << 20, 24
	s := start(t, vfs.NewMem(), func(c *Config) { c.OutboxBudget, c.TickTime = budget, 2*time.Second })
	p := dial(t, s, nil)
	path := "/" + strings.Repeat("p", 4000)
	p.do(create(path, "", 0))
	watches := zk.Request{Op: zk.OpAddWatch, Path: path, Watches: zk.WatchPersistent}
	p.do(watches)
	for range lagging {
		slow := dial(t, s, nil)
		slow.socket.(*net.TCPConn).SetReadBuffer(4 << 10)
		slow.do(watches)
	}
	for i := 0; staying(s) > lagging/4; i++ {
		for range 5 {
			p.send(zk.Request{Op: zk.OpSetData, Path: path, Version: -1})
		}
		for range 5 {
			if h, _ := p.reply(zk.OpSetData); h.Code != zk.OK {
				t.Fatal(h)
			}
		}
		for _, c := range s.conns.all() {
			c.out.mu.Lock()
			own := c.out.counted
			c.out.mu.Unlock()
			if own > outboxCrowded {
				t.Fatalf("one alone holds %d bytes", own)
			}
		}
		if held := s.outboxBytes.Load(); held > budget+1<<20 {
			t.Fatalf("outboxes of %d hold %d bytes, budget %d", len(s.conns.all()), held, budget)
		}
		if i > 2000 {
			t.Fatalf("%d connections are still here, outboxes hold %d bytes", len(s.conns.all()), s.outboxBytes.Load())
		}
	}
}

// staying counts the connections that are not dropped: dropped ones are closed a moment later.
func staying(s *Server) (n int) {
	for _, c := range s.conns.all() {
		if !c.out.isEnded() {
			n++
		}
	}
	return n
}

// Clients that read nothing, but send heartbeats, must not hold the budget of all for as long
// as they like: clients that do read would be disconnected because of them.
func TestClientThatReadsNothingIsDisconnected(t *testing.T) {
	s := start(t, vfs.NewMem(), func(c *Config) { c.SessionMin, c.SessionMax = 4*time.Second, 4*time.Second })
	s.closeGrace = 300 * time.Millisecond
	p := dial(t, s, nil)
	p.do(create("/big", strings.Repeat("x", 1_000_000), 0))
	lagging := dial(t, s, nil)
	lagging.socket.(*net.TCPConn).SetReadBuffer(4 << 10)
	r := zk.Request{Op: zk.OpMultiRead}
	for range 20 {
		r.Ops = append(r.Ops, zk.Request{Op: zk.OpGetData, Path: "/big"})
	}
	lagging.send(create("/small", "", 0), r) // after a write: the connection continues to read
	p.socket.Close()
	awaittest.Until(t, "it is disconnected, and what it had not read is gone", func() bool {
		lagging.socket.Write(wire.AppendRequest(nil, &zk.Request{Op: zk.OpPing, Xid: -2})) // fails once it is disconnected
		return len(s.conns.all()) == 0 && s.outboxBytes.Load() <= 1<<20
	})
}

// The server does not read a client's messages while it writes a long reply. As long as the
// client takes the reply, however slowly, that counts as a heartbeat.
func TestClientThatReadsSlowlyKeepsItsSession(t *testing.T) { synctest.Test(t, readsSlowly) }

func readsSlowly(t *testing.T) {
	pipes := &pipeListener{conns: make(chan net.Conn)} // they accept no bytes that are not read
	s := start(t, vfs.NewMem(), func(c *Config) {
		c.Listener, c.Listen, c.Clock, c.Wall = pipes, bubble.NewNet(0).Listen, bubble.Clock(1), time.Now
		c.SessionMin, c.SessionMax = 4*time.Second, 4*time.Second
	})
	comes := func() *peer {
		ours, theirs := net.Pipe()
		pipes.conns <- theirs
		return greet(t, ours, nil)
	}
	comes().do(create("/big", strings.Repeat("x", 1_000_000), 0))
	slow := comes()
	slow.do(create("/lock", "", zk.Ephemeral))
	r := zk.Request{Op: zk.OpMultiRead}
	for range 20 { // more than is read
		r.Ops = append(r.Ops, zk.Request{Op: zk.OpGetData, Path: "/big"})
	}
	slow.send(r)
	buffer := make([]byte, 64<<10)
	began := time.Now()
	for got := 0; got < 13_000_000; {
		n, err := slow.socket.Read(buffer)
		if got += n; err != nil || !s.KnowsSession(slow.id) {
			t.Fatalf("after %v and %d bytes: %v; its session is known: %v", time.Since(began), got, err, s.KnowsSession(slow.id))
		}
		time.Sleep(time.Duration(n) * time.Second / (3 << 19)) // its line takes 1.5 MiB/s
	}
	if time.Since(began) < 8*time.Second {
		t.Errorf("all was read in %v, less than two sessions take", time.Since(began))
	}
}

// When all together hold too much, the client that has held much for a long time is
// disconnected, not the one that asks for something at that moment.
func TestClientThatReadsAtOnceIsNotDisconnectedForThoseThatDoNot(t *testing.T) {
	s := start(t, vfs.NewMem(), func(c *Config) { c.OutboxBudget, c.TickTime = 16<<20, 2*time.Second })
	writer := dial(t, s, nil)
	writer.do(create("/big", strings.Repeat("x", 1_000_000), 0))
	r := zk.Request{Op: zk.OpMultiRead}
	for range 8 {
		r.Ops = append(r.Ops, zk.Request{Op: zk.OpGetData, Path: "/big"})
	}
	for range 8 {
		lagging := dial(t, s, nil)
		lagging.socket.(*net.TCPConn).SetReadBuffer(4 << 10)
		lagging.send(r)
		_, _ = lagging.socket.Read(make([]byte, 1)) // it has an answer, or is disconnected for those after it
	}
	reader, came := dial(t, s, nil), s.monoMs()
	awaittest.Until(t, "the others have held theirs for a millisecond", func() bool { return s.monoMs() > came })
	for i := range 8 {
		reader.send(r)
		if h, _ := reader.reply(zk.OpMultiRead); h.Code != zk.OK {
			t.Fatalf("read %d: %v", i, h)
		}
	}
	if staying(s) == 10 {
		t.Error("all that read nothing are still here, with nothing to relieve")
	}
}

// Reads that come after a write are answered by the loop if they are short. A list of
// thousands, requested by many, would hold up everybody.
func TestLongReadsBehindAWriteAreNotForTheLoop(t *testing.T) {
	for _, linearizable := range []bool{false, true} {
		t.Run(fmt.Sprint("linearizable: ", linearizable), func(t *testing.T) {
			s := start(t, vfs.NewMem(), func(c *Config) { c.LinearizableReads = linearizable })
			setUp := dial(t, s, nil)
			setUp.do(create("/many", "", 0))
			setUp.do(create("/long", "", 0))
			setUp.do(zk.Request{Op: zk.OpSetData, Path: "/long", Data: []byte(strings.Repeat("x", replica.LongAnswer+1)), Version: -1})
			m := zk.Request{Op: zk.OpMulti}
			rights := create("/rights", "", 0)
			for i := range childrenMany + 1 {
				m.Ops = append(m.Ops, create(fmt.Sprintf("/many/%04d", i), "", 0))
				rights.ACL = append(rights.ACL, zk.ACL{Perms: zk.PermRead, Identity: zk.Identity{Scheme: "digest", ID: fmt.Sprintf("u%d:h", i)}})
			}
			rights.ACL = append(rights.ACL, zk.OpenACL()...)
			setUp.do(rights)
			setUp.do(m)
			p := dial(t, s, nil)
			const rounds = 20
			reads := []zk.Request{
				{Op: zk.OpGetChildren, Path: "/many"}, {Op: zk.OpGetChildren2, Path: "/many"}, {Op: zk.OpGetData, Path: "/long"}, {Op: zk.OpGetACL, Path: "/rights"},
			}
			for i := range rounds {
				batch := append([]zk.Request{create(fmt.Sprintf("/own%d", i), "", 0)}, reads...)
				p.send(batch...)
				for _, r := range batch {
					if h, _ := p.reply(r.Op); h.Code != zk.OK {
						t.Fatal(h)
					}
				}
			}
			want := uint64(rounds + 1) // and the handshake
			if linearizable {
				want += rounds // checked when their turn comes, once for all of a batch
			}
			s.inspect(func(*replica.Replica) {
				for _, c := range s.conns.all() {
					if zk.SessionID(c.sessionID.Load()) == p.id && c.finished != want {
						t.Errorf("the loop has answered %d requests, not %d", c.finished, want)
					}
				}
			})
		})
	}
}

// A list is short when it is requested, and long when its turn comes: the write of another
// client has made it long. The loop makes some such answers in a step, and no more.
func TestAnswerThatBecomesLongEndsItsConnectionAtMost(t *testing.T) {
	var hold atomic.Bool
	gate := make(chan struct{})
	s := start(t, &vfs.Faulty{Disk: vfs.NewMem(), Before: func(op vfs.Op) error {
		if hold.Load() && op.Kind == vfs.KindSync && isLog(op) {
			<-gate
		}
		return nil
	}}, func(c *Config) { c.TickTime = 60 * time.Second })
	other := dial(t, s, nil)
	other.do(create("/d", "", 0))
	p := dial(t, s, nil)
	m := zk.Request{Op: zk.OpMulti}
	for i := range 12_000 {
		m.Ops = append(m.Ops, create(fmt.Sprintf("/d/%d", i), "", 0))
	}
	hold.Store(true)
	other.send(m)
	awaittest.Until(t, "the loop has the write", func() bool { return s.inFlight.Load() == 1 })
	batch := []zk.Request{{Op: zk.OpSetData, Path: "/", Version: -1}}
	for range readsBehindMax {
		batch = append(batch, zk.Request{Op: zk.OpGetChildren, Path: "/d"})
	}
	p.send(batch...)
	awaittest.Until(t, "the loop has all lists", func() bool { return s.inFlight.Load() == 2+readsBehindMax })
	hold.Store(false)
	close(gate)
	if h, _ := other.reply(zk.OpMulti); h.Code != zk.OK {
		t.Fatal(h)
	}
	answers := -1
	for {
		frame, err := readFrame(p.socket)
		if err != nil {
			break
		}
		if len(frame) > 0 {
			answers++
		}
	}
	if answers < 1 || answers > 4 {
		t.Errorf("%d lists of %d were answered", answers, readsBehindMax)
	}
	if again := dial(t, s, p); again.id != p.id {
		t.Error("its session has ended")
	}
	if code, _ := other.do(zk.Request{Op: zk.OpSetData, Path: "/d", Version: -1}); code != zk.OK {
		t.Error(code)
	}
}

// A long answer waits until others that are being made are done; a short one does not.
func TestLongAnswersAreMadeWithinABudget(t *testing.T) {
	s := start(t, vfs.NewMem(), nil)
	p, q := dial(t, s, nil), dial(t, s, nil)
	p.do(create("/long", strings.Repeat("x", answerLong/2), 0))
	most := s.answers.ask(answerBudgetMax)
	<-most.given
	p.send(zk.Request{Op: zk.OpMultiRead, Ops: []zk.Request{{Op: zk.OpGetData, Path: "/long"}, {Op: zk.OpGetData, Path: "/long"}}})
	awaittest.Until(t, "the long one waits", func() bool {
		s.answers.mu.Lock()
		defer s.answers.mu.Unlock()
		return len(s.answers.mu.waiting) == 1
	})
	if code, _ := q.do(zk.Request{Op: zk.OpGetData, Path: "/long"}); code != zk.OK {
		t.Error(code)
	}
	s.answers.release(answerBudgetMax)
	if h, _ := p.reply(zk.OpMultiRead); h.Code != zk.OK {
		t.Error(h)
	}
	awaittest.Until(t, "the budget is whole again", func() bool {
		s.answers.mu.Lock()
		defer s.answers.mu.Unlock()
		return s.answers.mu.left == answerBudgetMax
	})
}

// While a long read waits, its client is not told of changes for the watch that the read will
// set: a client without the answer has no watch yet.
func TestLongReadThatWaitsSetsNoWatch(t *testing.T) {
	s := start(t, vfs.NewMem(), func(c *Config) { c.FrameBytesMax = 4 << 20 })
	p, q := dial(t, s, nil), dial(t, s, nil)
	big(q, "/long", answerLong)
	most := s.answers.ask(answerBudgetMax)
	<-most.given
	p.send(zk.Request{Op: zk.OpGetData, Path: "/long", Watch: true})
	awaittest.Until(t, "the long one waits", func() bool {
		s.answers.mu.Lock()
		defer s.answers.mu.Unlock()
		return len(s.answers.mu.waiting) == 1
	})
	set := zk.Request{Op: zk.OpSetData, Path: "/long", Data: []byte("new"), Version: -1}
	q.must(zk.OK, set)
	s.answers.release(answerBudgetMax)
	if h, res := p.reply(zk.OpGetData); h.Code != zk.OK || string(res.Data) != "new" || len(p.events) > 0 {
		t.Errorf("%+v with %d bytes, after the events %v", h, len(res.Data), p.events)
	}
	q.must(zk.OK, set)
	if p.must(zk.OK, zk.Request{Op: zk.OpPing}); len(p.events) != 1 {
		t.Errorf("events %v of a change after the answer", p.events)
	}
}

// Half of the processors make long answers, at least one: a client that asks for nothing else
// leaves the others to clients that ask for little.
func TestLongAnswersLeaveProcessorsToOthers(t *testing.T) {
	s := start(t, vfs.NewMem(), nil)
	p, q := dial(t, s, nil), dial(t, s, nil)
	p.do(create("/long", strings.Repeat("x", answerLong/2), 0))
	makers := max(1, runtime.GOMAXPROCS(0)/2)
	for range makers {
		<-s.answers.ask(costOfAnswer(answerLong)).given
	}
	p.send(zk.Request{Op: zk.OpMultiRead, Ops: []zk.Request{{Op: zk.OpGetData, Path: "/long"}, {Op: zk.OpGetData, Path: "/long"}}})
	awaittest.Until(t, "the next long one waits", func() bool {
		s.answers.mu.Lock()
		defer s.answers.mu.Unlock()
		return len(s.answers.mu.waiting) == 1
	})
	if code, _ := q.do(zk.Request{Op: zk.OpGetData, Path: "/long"}); code != zk.OK {
		t.Error(code)
	}
	s.answers.release(costOfAnswer(answerLong))
	if h, _ := p.reply(zk.OpMultiRead); h.Code != zk.OK {
		t.Error(h)
	}
}

// Consecutive syncs are moved on together: one portion of input has thousands.
func TestPipelinedSyncsAreMovedOnTogether(t *testing.T) {
	s := start(t, vfs.NewMem(), nil)
	p := dial(t, s, nil)
	var requests []zk.Request
	for range 3500 {
		requests = append(requests, zk.Request{Op: zk.OpSync, Path: "/"})
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p.send(requests...)
	for range requests {
		if h, _ := p.reply(zk.OpSync); h.Code != zk.OK {
			t.Fatal(h)
		}
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 100<<20 { // moving each behind each other one takes a gigabyte
		t.Errorf("%d MiB were allocated", used>>20)
	}
}

// Between the portions of a long list of watches others get their turn: a write that arrives
// while one portion is set waits for that portion, not for the whole list.
func TestWritersTakeTheirTurnWhileWatchesAreSet(t *testing.T) {
	s := start(t, vfs.NewMem(), nil)
	p := dial(t, s, nil)
	sets := &zk.SetWatches{RelativeZxid: zk.Zxid(1) << 40}
	for i := range 8 * lockedWatches {
		sets.Persistent = append(sets.Persistent, fmt.Sprintf("/%d", i))
	}
	set := func() int64 { return int64(s.Watches().Counts().Data) }
	if n := turnAfter(t, s, p, set, "setWatches", zk.Request{Op: zk.OpSetWatches2, SetWatches: sets}); n != lockedWatches {
		t.Errorf("a writer got its turn behind %d watches, portions have %d", n, lockedWatches)
	}
	if h, _ := p.reply(zk.OpSetWatches2); h.Code != zk.OK || s.Watches().Counts().Data != len(sets.Persistent) {
		t.Errorf("%+v, with %+v", h, s.Watches().Counts())
	}
}

// turnAfter makes the only client send requests, holds them up at the first read in the named
// function, and lets a writer arrive meanwhile. It returns the count when the writer gets its
// turn.
func turnAfter(t *testing.T, s *Server, p *peer, count func() int64, function string, requests ...zk.Request) int64 {
	t.Helper()
	out := &s.conns.all()[0].out
	s.reader.Tree.Lock()
	p.send(requests...)
	awaitBlocked(t, "sync.RWMutex.RLock", function)
	out.mu.Lock()
	s.reader.Tree.Unlock()
	awaitBlocked(t, "sync.Mutex.Lock", function)
	counted := make(chan int64)
	go takeTurn(s, count, counted)
	awaitBlocked(t, "sync.RWMutex.Lock", "takeTurn")
	out.mu.Unlock()
	return <-counted
}

// takeTurn does what a write does, and reports what was done before it.
func takeTurn(s *Server, count func() int64, counted chan<- int64) {
	s.reader.Tree.Lock()
	n := count()
	s.reader.Tree.Unlock()
	counted <- n
}

// awaitBlocked waits until a goroutine waits for a lock in a function, or in one that it calls.
func awaitBlocked(t *testing.T, lock, function string) {
	t.Helper()
	all := make([]byte, 1<<20)
	awaittest.Until(t, function+" waits", func() bool {
		for goroutine := range strings.SplitSeq(string(all[:runtime.Stack(all, true)]), "\n\n") {
			state, calls, _ := strings.Cut(goroutine, "\n")
			if strings.Contains(state, lock) && strings.Contains(calls, function+"(") {
				return true
			}
		}
		return false
	})
}

// A list of watches is set in portions, and each of them is set or answered by an event.
func TestLongListOfWatchesIsSetInPortions(t *testing.T) {
	s := start(t, vfs.NewMem(), nil)
	p := dial(t, s, nil)
	p.do(create("/there", "", 0))
	sets := &zk.SetWatches{RelativeZxid: zk.Zxid(1) << 40}
	for i := range 2*lockedWatches + 7 {
		sets.Data = append(sets.Data, fmt.Sprintf("/gone%d", i))
		sets.Exist = append(sets.Exist, "/there")
		sets.Child = append(sets.Child, "/")
		sets.Persistent = append(sets.Persistent, fmt.Sprintf("/p%d", i))
		sets.Recursive = append(sets.Recursive, fmt.Sprintf("/r%d", i))
	}
	all, most := *sets, 0
	for rest := sets; rest != nil; {
		var part zk.SetWatches
		part, rest = portionOf(rest, lockedWatches)
		n := len(part.Data) + len(part.Exist) + len(part.Child) + len(part.Persistent) + len(part.Recursive)
		most = max(most, n)
	}
	if most != lockedWatches {
		t.Errorf("a portion has %d watches", most)
	}
	if code, _ := p.do(zk.Request{Op: zk.OpSetWatches2, SetWatches: &all}); code != zk.OK {
		t.Fatal(code)
	}
	if n, want := len(p.events), len(all.Data)+len(all.Exist); n != want {
		t.Errorf("%d events for %d watches of what has changed", n, want)
	}
	p.events = nil
	last := len(all.Persistent) - 1
	for _, path := range []string{all.Persistent[0], all.Persistent[last], all.Recursive[0], all.Recursive[last]} {
		p.do(create(path, "", 0))
	}
	// The first create also changes the children of the root, whose watch is a standard one.
	if n := len(p.events); n != 5 {
		t.Errorf("%d events: %+v", n, p.events)
	}
}

// A host with many connections that together hold much is worse than a single connection of
// another host.
func TestWorstLaggardIsOfTheWorstHost(t *testing.T) {
	one, a, b := connFrom("10.0.0.1"), connFrom("10.9.9.9"), connFrom("10.9.9.9")
	l := laggards{all: map[*conn]lag{one: {bytes: 100}, a: {bytes: 60}, b: {bytes: 70}}}
	for _, want := range []*conn{b, one, a} { // the host with 130, then the one with 100
		if worst := l.worst(1000); worst != want {
			t.Errorf("it is %v with %d bytes", worst.remote, l.all[worst].bytes)
		}
		delete(l.all, want)
	}
}
