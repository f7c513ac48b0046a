package recipes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/servertest"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// serve runs a Conclave server on a memory disk until the test ends.
func serve(t *testing.T) string { return serveOn(t, vfs.NewMem()) }

func serveOn(t *testing.T, disk vfs.FS) string {
	t.Helper()
	return servertest.Start(t, func(config *server.Config) { config.FS = servertest.SlowDisk(disk, 2*time.Millisecond) })
}

func dialed(t *testing.T, addr string, o client.Options) *client.Client {
	t.Helper()
	c, err := client.Dial(awaittest.Within(t), addr, o)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// scenario-K01, scenario-K05: connections are cut all the time, the lock is still held by one at
// a time, nobody hangs, tokens only grow, and no orphan stays in the line.
func TestALockHasOneHolderThoughConnectionsAreCut(t *testing.T) {
	addr := serve(t)
	ctx := awaittest.Within(t)
	var holders atomic.Int32
	var mu sync.Mutex
	var tokens []zk.Zxid
	var group sync.WaitGroup
	for range 4 {
		network := &servertest.Links{}
		c := dialed(t, addr, client.Options{Dialer: network.Dial, BackoffMax: 20 * time.Millisecond})
		lock := NewLock(c, "/locks/a", Options{Data: []byte("me")})
		done := make(chan struct{})
		group.Go(func() {
			pause := 20 * time.Millisecond
			for {
				select {
				case <-done:
					return
				case <-time.After(pause):
					pause += time.Millisecond // so that a slow machine gets on, too
					network.Cut()
				}
			}
		})
		group.Go(func() {
			defer close(done)
			for turns := 0; turns < 10; {
				held, err := lock.Acquire(ctx)
				if errors.Is(err, zk.ErrConnectionLoss) {
					continue // the outcome of a create could not be found out
				}
				turns++
				if err != nil {
					t.Error(err)
					return
				}
				if holders.Add(1) != 1 {
					t.Error("two holders")
				}
				mu.Lock()
				tokens = append(tokens, held.Token())
				mu.Unlock()
				holders.Add(-1)
				if err := held.Release(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if !slices.IsSorted(tokens) || len(tokens) != 40 {
		t.Errorf("%d tokens: %v", len(tokens), tokens)
	}
	names, _, err := dialed(t, addr, client.Options{}).Children(awaittest.Within(t), "/locks/a")
	if err != nil || len(names) != 0 {
		t.Errorf("left in the line: %v, %v", names, err)
	}
}

func TestAWaiterThatGivesUpLeavesTheLine(t *testing.T) {
	addr := serve(t)
	c, other, ctx := dialed(t, addr, client.Options{}), dialed(t, addr, client.Options{}), awaittest.Within(t)
	held, err := NewLock(c, "/l", Options{}).Acquire(ctx)
	must(t, err)
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := NewLock(other, "/l", Options{}).Acquire(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	must(t, held.Release(ctx))
	third, err := NewLock(c, "/l", Options{}).Acquire(ctx)
	must(t, err)
	must(t, third.Release(ctx))
}

func TestAHolderIsToldOfItsLoss(t *testing.T) {
	addr := serve(t)
	c, ctx := dialed(t, addr, client.Options{}), awaittest.Within(t)
	held, err := NewLock(c, "/l", Options{}).Acquire(ctx)
	must(t, err)
	must(t, dialed(t, addr, client.Options{}).Delete(ctx, held.Path(), -1))
	<-held.Lost()
	held, err = NewLock(c, "/l", Options{}).Acquire(ctx)
	must(t, err)
	must(t, c.Close())
	<-held.Lost()
}

func TestReadersShareAndWritersDoNot(t *testing.T) {
	c, ctx := dialed(t, serve(t), client.Options{}), awaittest.Within(t)
	lock := NewRWLock(c, "/rw", Options{})
	first, err := lock.AcquireRead(ctx)
	must(t, err)
	second, err := lock.AcquireRead(ctx)
	must(t, err)
	written := make(chan *Held)
	acquire := func(f func(context.Context) (*Held, error)) {
		held, err := f(ctx)
		if err != nil {
			t.Error(err)
		}
		written <- held
	}
	go acquire(lock.AcquireWrite)
	awaitQueue(t, c, "/rw", 3)
	go acquire(lock.AcquireRead) // after the writer: it does not overtake
	awaitQueue(t, c, "/rw", 4)
	must(t, first.Release(ctx))
	select {
	case <-written:
		t.Fatal("a writer got in beside a reader")
	case <-time.After(50 * time.Millisecond):
	}
	must(t, second.Release(ctx))
	writer := <-written
	must(t, writer.Release(ctx))
	must(t, (<-written).Release(ctx))
}

// awaitQueue waits until the queue has so many entries.
func awaitQueue(t *testing.T, c *client.Client, dir string, count int) {
	t.Helper()
	for {
		names, _, w, err := c.ChildrenW(awaittest.Within(t), dir)
		must(t, err)
		if len(names) == count {
			w.Close()
			return
		}
		<-w.Events()
	}
}

func TestEveryItemOfAQueueIsTakenOnceAndInOrder(t *testing.T) {
	addr := serve(t)
	ctx := awaittest.Within(t)
	queue := NewQueue(dialed(t, addr, client.Options{}), "/q/items", Options{})
	var mu sync.Mutex
	seen := map[string]int{}
	var group sync.WaitGroup
	for range 3 {
		c := dialed(t, addr, client.Options{})
		group.Go(func() {
			last := ""
			for range 10 {
				item, err := NewQueue(c, "/q/items", Options{}).Take(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				if string(item) <= last {
					t.Errorf("took %s after %s", item, last)
				}
				last = string(item)
				mu.Lock()
				seen[last]++
				mu.Unlock()
			}
		})
	}
	for i := range 30 {
		must(t, queue.Put(ctx, fmt.Appendf(nil, "%02d", i)))
	}
	group.Wait()
	if len(seen) != 30 {
		t.Errorf("%d different items of 30", len(seen))
	}
}

func TestABarrierHoldsUntilItIsLowered(t *testing.T) {
	c, ctx := dialed(t, serve(t), client.Options{}), awaittest.Within(t)
	barrier := NewBarrier(c, "/b/x", Options{})
	must(t, barrier.Wait(ctx))
	must(t, barrier.Raise(ctx))
	must(t, barrier.Raise(ctx))
	passed := make(chan error)
	go func() { passed <- barrier.Wait(ctx) }()
	select {
	case <-passed:
		t.Fatal("passed")
	case <-time.After(30 * time.Millisecond):
	}
	must(t, barrier.Lower(ctx))
	must(t, <-passed)
	must(t, barrier.Lower(ctx))
}

func TestMembersOfADoubleBarrierBeginAndEndTogether(t *testing.T) {
	addr := serve(t)
	ctx := awaittest.Within(t)
	var inside, left atomic.Int32
	var group sync.WaitGroup
	for range 5 {
		c := dialed(t, addr, client.Options{})
		group.Go(func() {
			b := NewDoubleBarrier(c, "/d", 5, Options{})
			inside.Add(1)
			if err := b.Enter(ctx); err != nil || inside.Load() != 5 {
				t.Errorf("entered with %d: %v", inside.Load(), err)
			}
			left.Add(1)
			if err := b.Leave(ctx); err != nil || left.Load() != 5 {
				t.Errorf("left with %d: %v", left.Load(), err)
			}
		})
	}
	group.Wait()
}

func TestACounterLosesNoAddition(t *testing.T) {
	addr := serve(t)
	ctx := awaittest.Within(t)
	var group sync.WaitGroup
	for range 4 {
		c := dialed(t, addr, client.Options{})
		group.Go(func() {
			for range 25 {
				if _, err := NewCounter(c, "/n/c", Options{}).Add(ctx, 2); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	c := dialed(t, addr, client.Options{})
	counter := NewCounter(c, "/n/c", Options{})
	if value, err := counter.Value(ctx); value != 200 || err != nil {
		t.Errorf("value %d, %v", value, err)
	}
	_, err := c.Set(ctx, "/n/c", []byte("x"), -1)
	must(t, err)
	if _, err := counter.Add(ctx, 1); err == nil {
		t.Error("nonsense was added to")
	}
}

func TestContendersAreOrderedByNumberAcrossTheWrap(t *testing.T) {
	names := []string{"lock--2147483647", "_c_f0000000-0000-0000-0000-000000000000-__WRIT__2147483646", "nothing",
		"lock-2147483647", "__READ__-2147483648", "lock--000000005", "x"}
	var got []string
	for _, m := range inOrder(names) {
		got = append(got, fmt.Sprint(m.kind, " ", m.number))
	}
	want := []string{"__WRIT__ 2147483646", "lock- 2147483647", "__READ__ -2147483648", "lock- -2147483647", "lock- -5"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
