package recipes

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/zk"
)

// eater is a connection that swallows the first matching request, and breaks: the request
// was sent, and lost on the way.
type eater struct {
	net.Conn
	full *atomic.Bool
	eats func(request []byte) bool
}

func (e eater) Write(b []byte) (int, error) {
	if e.eats(b) && e.full.CompareAndSwap(false, true) {
		return len(b), e.Conn.Close()
	}
	return e.Conn.Write(b)
}

// eating returns options for clients that lose one matching request, once.
func eating(eats func(request []byte) bool) (o client.Options, full *atomic.Bool) {
	full = &atomic.Bool{}
	o.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return eater{conn, full, eats}, err
	}
	return o, full
}

// eatsOp matches requests of an operation that are written alone. A frame begins with its
// length, the xid and the operation.
func eatsOp(op zk.Op) func([]byte) bool {
	return func(b []byte) bool { return len(b) >= 12 && b[11] == byte(op) }
}

func TestDoubleBarrierBeginsThoughItsBeginningIsLost(t *testing.T) {
	addr := serve(t)
	o, eaten := eating(func(b []byte) bool {
		return bytes.Contains(b, []byte(`{"round":`))
	})
	var group sync.WaitGroup
	for i := range 2 {
		c := dialed(t, addr, o)
		group.Go(func() {
			if err := NewDoubleBarrier(c, "/db", 2, Options{}).Enter(awaittest.Within(t)); err != nil {
				t.Errorf("member %d of 2, both are there: %v", i, err)
			}
		})
	}
	group.Wait()
	if !eaten.Load() {
		t.Error("nothing was lost")
	}
}

// far is a connection on which everything arrives late.
type far struct{ net.Conn }

func (f far) Read(b []byte) (int, error) {
	n, err := f.Conn.Read(b)
	awaittest.RealTime(40*time.Millisecond, "it is far away")
	return n, err
}

// TestDoubleBarrierIsUsedRoundAfterRound by a near member and a far one: the near one
// enters the next round before the far one has seen the end of this one.
func TestDoubleBarrierIsNotLeftBeforeItIsEntered(t *testing.T) {
	b := NewDoubleBarrier(dialed(t, serve(t), client.Options{}), "/db", 1, Options{})
	if err := b.Leave(awaittest.Within(t)); err == nil {
		t.Error("it was left")
	}
}

func TestDoubleBarrierIsUsedRoundAfterRound(t *testing.T) {
	const rounds = 5
	addr := serve(t)
	var group sync.WaitGroup
	var inside atomic.Int32
	for i := range 3 {
		var o client.Options
		if i == 1 {
			o.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
				return far{conn}, err
			}
		}
		c := dialed(t, addr, o)
		group.Go(func() {
			b := NewDoubleBarrier(c, "/db", 3, Options{})
			for round := range int32(rounds) {
				inside.Add(1)
				if err := b.Enter(awaittest.Within(t)); err != nil || inside.Load() < 3*(round+1) {
					t.Errorf("member %d entered round %d with %d: %v", i, round, inside.Load()-3*round, err)
					return
				}
				if err := b.Leave(awaittest.Within(t)); err != nil {
					t.Errorf("member %d left round %d: %v", i, round, err)
					return
				}
			}
		})
	}
	group.Wait()
}

// TestRoundOfADoubleBarrierEndsThoughAMemberDies, the first or another one.
func TestRoundOfADoubleBarrierEndsThoughAMemberDies(t *testing.T) {
	for dying := range 3 {
		addr := serve(t)
		var entered, left sync.WaitGroup
		var clients [3]*client.Client
		for i := range clients {
			c := dialed(t, addr, client.Options{})
			clients[i] = c
			entered.Add(1)
			left.Go(func() {
				b := NewDoubleBarrier(c, "/db", 3, Options{})
				if err := b.Enter(awaittest.Within(t)); err != nil {
					t.Error(err)
				}
				entered.Done()
				entered.Wait()
				if i == dying {
					c.Close()
					return
				}
				if err := b.Leave(awaittest.Within(t)); err != nil {
					t.Errorf("member %d: %v", i, err)
				}
			})
		}
		left.Wait()
		names, _, err := dialed(t, addr, client.Options{}).Children(awaittest.Within(t), "/db")
		if err != nil || len(names) != 0 {
			t.Errorf("after the death of member %d the barrier holds %q, %v", dying, names, err)
		}
	}
}

// late is a connection that delivers nothing while its gate has an open channel. It notes
// when its member has read who belongs to the round, with a watch, and who is there: after
// that the member waits for the watch.
type late struct {
	net.Conn
	*way
}

// way is the state that all connections of one client share.
type way struct {
	gate    atomic.Pointer[chan struct{}]
	watches atomic.Bool
	asked   atomic.Uint32 // the xid of the request for all names
	waits   atomic.Bool
}

func (l late) Write(b []byte) (int, error) {
	switch {
	case eatsOp(zk.OpGetData)(b):
		l.watches.Store(true)
	case eatsOp(zk.OpGetChildren2)(b) && l.watches.Load():
		l.asked.Store(binary.BigEndian.Uint32(b[4:]))
	}
	return l.Conn.Write(b)
}

func (l late) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	if asked := l.asked.Load(); n >= 8 && asked != 0 && binary.BigEndian.Uint32(b[4:]) == asked {
		l.waits.Store(true)
	}
	if shut := l.gate.Load(); shut != nil {
		<-*shut
	}
	return n, err
}

// TestMemberEntersAndLeavesThoughTheOneThatBeganIsGone: another member has seen the
// beginning, and this one learns about the round only after that.
func TestMemberEntersAndLeavesThoughTheOneThatBeganIsGone(t *testing.T) {
	addr := serve(t)
	var far way
	slow := dialed(t, addr, client.Options{Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return late{conn, &far}, err
	}})
	var group sync.WaitGroup
	left := func(b *DoubleBarrier, err error) {
		if err == nil {
			err = b.Leave(awaittest.Within(t))
		}
		if err != nil {
			t.Error(err)
		}
	}
	looks := dialed(t, addr, client.Options{})
	join := func(c *client.Client, present int) {
		group.Go(func() {
			b := NewDoubleBarrier(c, "/db", 3, Options{})
			left(b, b.Enter(awaittest.Within(t)))
		})
		awaittest.Until(t, "it has joined", func() bool {
			names, _, _ := looks.Children(awaittest.Within(t), "/db")
			return len(names) >= present
		})
	}
	join(dialed(t, addr, client.Options{}), 1)
	join(slow, 2)
	awaittest.Until(t, "the slow one has its watch, and has seen that a member is missing", far.waits.Load)
	shut := make(chan struct{})
	far.gate.Store(&shut)
	begins := dialed(t, addr, client.Options{})
	must(t, NewDoubleBarrier(begins, "/db", 3, Options{}).Enter(awaittest.Within(t)))
	begins.Close()
	far.gate.Store(nil)
	close(shut)
	group.Wait()
}

// TestDoubleBarrierLeavesTheDataOfOthersAlone.
func TestDoubleBarrierLeavesTheDataOfOthersAlone(t *testing.T) {
	c := dialed(t, serve(t), client.Options{})
	_, _, err := c.Create(awaittest.Within(t), "/db", []byte("mine"), client.CreateOptions{})
	must(t, err)
	err = NewDoubleBarrier(c, "/db", 1, Options{}).Enter(awaittest.Within(t))
	if err == nil || !strings.Contains(err.Error(), "use a directory of its own") {
		t.Errorf("entered over the data of somebody else: %v", err)
	}
	data, _, err := c.Get(awaittest.Within(t), "/db")
	if err != nil || string(data) != "mine" {
		t.Errorf("the data is %q, %v", data, err)
	}
}

// TestItemWhoseTakingWasNotAnsweredMayBeTakenAgain is what Take says.
func TestItemWhoseTakingWasNotAnsweredMayBeTakenAgain(t *testing.T) {
	o, _ := eating(eatsOp(zk.OpDelete))
	q := NewQueue(dialed(t, serve(t), o), "/q", Options{})
	must(t, q.Put(awaittest.Within(t), []byte("item")))
	item, err := q.Take(awaittest.Within(t))
	if string(item) != "item" || client.OutcomeOf(err) != client.Unknown {
		t.Errorf("%q, %v", item, err)
	}
	item, err = q.Take(awaittest.Within(t))
	if string(item) != "item" || err != nil {
		t.Errorf("again: %q, %v", item, err)
	}
}

// TestRecipesNeedNoRightsAboveTheirDirectory: the root belongs to somebody else, as is
// common, and so does the directory's parent, in which the client may not create.
func TestRecipesNeedNoRightsAboveTheirDirectory(t *testing.T) {
	addr := serve(t)
	admin := dialed(t, addr, client.Options{Auth: []client.Credential{{Scheme: "digest", Data: []byte("admin:x")}}})
	c := dialed(t, addr, client.Options{})
	ctx := awaittest.Within(t)
	for _, path := range []string{"/apps", "/apps/x", "/apps/x/lock"} {
		_, _, err := admin.Create(ctx, path, nil, client.CreateOptions{})
		must(t, err)
	}
	locked := []zk.ACL{{Perms: zk.PermRead, Identity: zk.Identity{Scheme: "world", ID: "anyone"}},
		{Perms: zk.PermAll, Identity: zk.Identity{Scheme: "auth"}}}
	for _, path := range []string{"/", "/apps"} {
		_, err := admin.SetACL(ctx, path, locked, -1)
		must(t, err)
	}
	must(t, NewBarrier(c, "/apps/x/barrier", Options{}).Raise(ctx))
	_, err := NewLock(c, "/apps/x/lock", Options{}).Acquire(ctx)
	must(t, err)
	_, err = NewLock(c, "/apps/x/made/lock", Options{}).Acquire(ctx)
	must(t, err)
	_, err = NewCounter(c, "/apps/x/counter", Options{}).Add(ctx, 1)
	must(t, err)
	must(t, NewQueue(c, "/apps/x/queue", Options{}).Put(ctx, nil))
	must(t, NewDoubleBarrier(c, "/apps/x/double", 1, Options{}).Enter(ctx))
	must(t, makeDir(ctx, c, "/apps/x", nil))
}

// answerless is a connection that breaks after a delete was carried out and before its
// answer arrives, once among all connections that share it.
type answerless struct {
	net.Conn
	broken    *atomic.Bool
	meanwhile func() // returns when the delete was carried out
	mine      *atomic.Bool
	done      chan struct{} // closed after meanwhile
}

func (a answerless) Write(b []byte) (int, error) {
	if !eatsOp(zk.OpDelete)(b) || !a.broken.CompareAndSwap(false, true) {
		return a.Conn.Write(b)
	}
	a.mine.Store(true)
	n, err := a.Conn.Write(b)
	a.meanwhile()
	close(a.done)
	return n, errors.Join(err, a.Conn.Close())
}

func (a answerless) Read(b []byte) (int, error) {
	n, err := a.Conn.Read(b)
	if a.mine.Load() {
		<-a.done // the client is not to go on before
		return 0, net.ErrClosed
	}
	return n, err
}

func TestBarrierThatWasRaisedAgainStaysThoughTheAnswerOfLowerIsLost(t *testing.T) {
	addr := serve(t)
	other := dialed(t, addr, client.Options{})
	var broken atomic.Bool
	c := dialed(t, addr, client.Options{Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return answerless{conn, &broken, func() {
			if err := NewBarrier(other, "/b", Options{}).Wait(awaittest.Within(t)); err != nil {
				t.Error(err)
			}
			if err := NewBarrier(other, "/b", Options{}).Raise(awaittest.Within(t)); err != nil {
				t.Error(err)
			}
		}, &atomic.Bool{}, make(chan struct{})}, err
	}})
	must(t, NewBarrier(c, "/b", Options{}).Raise(awaittest.Within(t)))
	must(t, NewBarrier(c, "/b", Options{}).Lower(awaittest.Within(t)))
	if _, found, err := other.Exists(awaittest.Within(t), "/b"); err != nil || !found {
		t.Errorf("the barrier that was raised since is gone, %v", err)
	}
}
