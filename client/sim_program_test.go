package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/conclave-project/conclave/zk"
)

// simSlot is a program with a session, and with a new session when that has ended.
type simSlot struct {
	r   *simRun
	n   int
	rng *rand.Rand

	reads bool // reads and never writes

	mu      sync.Mutex
	client  *Client
	watches []*simWatch
}

// simWatch is a one-shot watch, with what its program had seen when it set the watch.
type simWatch struct {
	*Watch
	client *Client
	kind   zk.Op
	seen   zk.Zxid
	fired  bool
}

// present returns the client in use.
func (s *simSlot) present() *Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client
}

// open starts a session, or resumes one that was left.
func (s *simSlot) open(resume *Session) {
	r := s.r
	o := Options{
		SessionTimeout: time.Duration(r.plan.timeoutMs) * time.Millisecond, BackoffMin: 10 * time.Millisecond,
		BackoffMax: 300 * time.Millisecond, ReplyBytesMax: simReplyBytesMax, InFlightMax: 40, WatchQueue: 8,
		Seed: s.rng.Uint64() | 1, Resume: resume, Clock: simClock{goClock{r.start}},
		Dialer: func(ctx context.Context, _, address string) (net.Conn, error) {
			return r.e.dial(ctx, address, r.plan.netMs)
		},
	}
	c, err := New(r.someServers(s.rng), o)
	if err != nil {
		r.fail("%v", err)
		return
	}
	s.mu.Lock()
	s.client = c
	s.mu.Unlock()
	r.group.Go(func() { r.followStates(c, c.Subscribe()) })
	r.group.Go(func() { r.followChildren(c) })
}

// live ends the session now and then, in one way or another, and begins a new one
// whenever a session has ended.
func (s *simSlot) live(ctx context.Context) {
	for {
		c := s.present()
		ended := simUntil(ctx, c.Done(), time.Duration(s.rng.IntN(6_000))*time.Millisecond)
		switch {
		case ctx.Err() != nil:
			return
		case ended || s.rng.IntN(2) == 0:
			s.r.close(c)
			s.open(nil)
		default:
			session := c.Detach()
			if session.ID != 0 {
				s.open(&session)
			} else {
				s.open(nil)
			}
		}
	}
}

// simUntil waits for the channel, at most for the limit, and reports whether the
// channel ended the wait.
func simUntil(ctx context.Context, done <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// close closes a client; this must not take long.
func (r *simRun) close(c *Client) {
	began := time.Now()
	_ = c.Close()
	if took := time.Since(began); took > closeWait+2*time.Second {
		r.fail("Close took %v", took)
	}
}

// move gives the client another list of servers.
func (s *simSlot) move(servers string) {
	if err := s.present().SetServers(servers); err != nil {
		s.r.fail("SetServers(%s): %v", servers, err)
	}
}

// work makes requests until the context ends.
func (s *simSlot) work(ctx context.Context, rng *rand.Rand, worker int) {
	var mine []string // the znodes that this worker has created
	for n := 0; simNap(ctx, time.Duration(rng.IntN(s.r.plan.thinkMs+1))*time.Millisecond); n++ {
		c, id := s.present(), fmt.Sprintf("%d.%d.%d", s.n, worker, n)
		within, cancel := s.r.limit, context.CancelFunc(func() {})
		if rng.IntN(6) == 0 {
			within, cancel = context.WithTimeout(within, time.Duration(rng.IntN(4*s.r.plan.netMs+1))*time.Millisecond)
		}
		pick := rng.IntN(14)
		if s.reads {
			pick = 8 + pick%3
		}
		switch pick {
		case 0, 1:
			s.r.set(within, c, rng, id)
		case 2:
			path := "/w/" + id
			if _, _, err := c.Create(within, path, []byte(id), CreateOptions{}); s.r.wrote(id, err) == Applied {
				mine = append(mine, path)
			}
		case 3:
			_, _, err := c.Create(within, "/w/"+id, []byte(id), CreateOptions{Mode: zk.Ephemeral})
			s.r.wrote(id, err)
		case 4:
			_, _, _, err := c.CreateProtected(within, "/w/p-", []byte(id), CreateOptions{Mode: zk.EphemeralSequential})
			s.r.wrote(id, err)
		case 5:
			_, err := c.Multi(within, SetOp(simRegister(0), []byte(id), -1), CreateOp("/w/"+id, []byte(id), CreateOptions{}))
			s.r.wrote(id, err)
		case 6: // this fails
			_, err := c.Multi(within, SetOp(simRegister(0), []byte(id), -1), CheckOp("/none", -1))
			s.r.wrote(id, err)
		case 7:
			if len(mine) > 0 {
				path := mine[len(mine)-1]
				mine = mine[:len(mine)-1]
				s.r.wrote("delete "+path, c.Delete(within, path, -1))
			}
		case 8, 9:
			s.read(within, c, simRegister(rng.IntN(simRegisters)))
		case 10:
			s.watch(within, c, rng, id)
		case 11, 12:
			s.pipeline(within, c, rng, id)
		case 13:
			_ = c.Sync(within, "/w")
		}
		cancel()
		s.r.checkLimit(id)
	}
}

// set writes a register. One mutant sends a write again that may have been applied.
func (r *simRun) set(ctx context.Context, c *Client, rng *rand.Rand, id string) Outcome {
	path := simRegister(rng.IntN(simRegisters))
	_, err := c.Set(ctx, path, []byte(id), -1)
	if r.mutant == simUnknownSentAgain && OutcomeOf(err) == Unknown && isLoss(err) {
		_, err = c.Set(ctx, path, []byte(id), -1)
	}
	return r.wrote(id, err)
}

// pipeline submits several writes at once, and waits for them afterwards.
func (s *simSlot) pipeline(ctx context.Context, c *Client, rng *rand.Rand, id string) {
	var futures []*Future
	var ids []string
	for i := range 1 + rng.IntN(12) {
		one := fmt.Sprint(id, ".", i)
		r := zk.Request{Op: zk.OpCreate2, Path: "/w/" + one, Data: []byte(one), ACL: zk.OpenACL()}
		if rng.IntN(8) == 0 { // this fails
			r = zk.Request{Op: zk.OpMulti, Ops: []zk.Request{r, {Op: zk.OpCheck, Path: "/none", Version: -1}}}
		}
		f, err := c.Submit(ctx, r)
		if err != nil {
			s.r.wrote(one, err)
			continue
		}
		futures, ids = append(futures, f), append(ids, one)
	}
	link := s.r.linkOf(c)
	for i, f := range futures {
		xid := f.xid(ctx)
		_, err := f.Wait(ctx)
		if OutcomeOf(err) == NotApplied && isLoss(err) && xid != 0 {
			s.r.unsent.Add(1)
			s.r.ghost(link, xid, ids[i])
		}
		s.r.wrote(ids[i], err)
	}
}

// xid waits for the end of a request, and returns the number that it had on its
// connection, or 0 if it had none or nobody waits for it any more.
func (f *Future) xid(ctx context.Context) zk.Xid {
	select {
	case <-f.call.done:
		f.call.done <- struct{}{}
		return f.call.Request.Xid
	case <-ctx.Done():
		return 0
	}
}

// read reads a register. A client that had set a watch there must have its event by
// then, if the value is newer.
func (s *simSlot) read(ctx context.Context, c *Client, path string) {
	_, stat, err := c.Get(ctx, path)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watches {
		if w.client == c && w.kind == zk.OpGetData && w.Path() == path && w.seen < stat.Mzxid && !w.told() {
			s.r.fail("%s of %v was read before the event of a watch set at %v", path, stat.Mzxid, w.seen)
		}
	}
}

// told reports whether the watch has fired or ended.
func (w *simWatch) told() bool {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	return w.fired || w.ended || len(w.events) > 0
}

// watch sets a one-shot watch, and waits for it in a goroutine of its own.
func (s *simSlot) watch(ctx context.Context, c *Client, rng *rand.Rand, id string) {
	w := &simWatch{client: c}
	var err error
	var stat zk.Stat
	pick := rng.IntN(3)
	if s.reads {
		pick %= 2
	}
	switch pick {
	case 0:
		w.kind = zk.OpGetData
		_, stat, w.Watch, err = c.GetW(ctx, simRegister(rng.IntN(simRegisters)))
		w.seen = stat.Mzxid
	case 1:
		w.kind = zk.OpGetChildren2
		_, stat, w.Watch, err = c.ChildrenW(ctx, "/w")
		w.seen = stat.Pzxid
	case 2:
		w.kind = zk.OpExists
		_, _, w.Watch, err = c.ExistsW(ctx, "/w/"+id+"x")
	}
	if err != nil {
		return
	}
	s.mu.Lock()
	s.watches = append(s.watches, w)
	s.mu.Unlock()
	if w.kind == zk.OpExists {
		s.r.group.Go(func() {
			_, _, err := c.Create(s.r.limit, "/w/"+id+"x", []byte(id), CreateOptions{Mode: zk.Ephemeral})
			s.r.wrote(id, err)
		})
	}
	s.r.group.Go(func() { s.awaitWatch(w) })
}

// awaitWatch checks the single event of a watch.
func (s *simSlot) awaitWatch(w *simWatch) {
	event, fired := <-w.Events()
	s.mu.Lock()
	w.fired = true
	s.watches = slices.DeleteFunc(s.watches, func(other *simWatch) bool { return other == w })
	s.mu.Unlock()
	if !fired {
		if w.Err() == nil || w.client.Err() == nil {
			s.r.fail("a watch of %s ended with %v while its session lives", w.Path(), w.Err())
		}
		return
	}
	want := map[zk.Op]zk.EventType{zk.OpGetData: zk.EventNodeDataChanged,
		zk.OpGetChildren2: zk.EventNodeChildrenChanged, zk.OpExists: zk.EventNodeCreated}[w.kind]
	if event.Type != want && !(w.kind == zk.OpExists && event.Type == zk.EventNodeDeleted) || event.Path != w.Path() {
		s.r.fail("a watch for %v at %s got %v", want, w.Path(), event)
	}
	if second, more := <-w.Events(); more {
		s.r.fail("a one-shot watch fired again: %v", second)
	}
	s.r.events.Add(1)
}

// last writes again when all is well again, which must succeed in time.
func (s *simSlot) last() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for n := 0; ; n++ {
		c, id := s.present(), fmt.Sprintf("last.%d.%d", s.n, n)
		_, err := c.Set(ctx, simRegister(0), []byte(id), -1)
		switch s.r.wrote(id, err); {
		case err == nil:
			return
		case ctx.Err() != nil:
			s.r.fail("client %d writes nothing though all is well: %v", s.n, err)
			return
		case errors.Is(err, zk.ErrSessionExpired) || errors.Is(err, zk.ErrClosing):
			s.r.close(c)
			s.open(nil)
		}
	}
}
