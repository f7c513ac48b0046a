package recipes

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// counter is a connection that reports each delete it sends.
type counter struct {
	net.Conn
	deletes chan<- struct{}
}

func (c counter) Write(b []byte) (int, error) {
	if eatsOp(zk.OpDelete)(b) {
		select {
		case c.deletes <- struct{}{}:
		default:
		}
	}
	return c.Conn.Write(b)
}

// dialCounted returns a client, and a channel that reports each delete that it sends.
func dialCounted(t *testing.T, addr string) (*client.Client, <-chan struct{}) {
	deletes := make(chan struct{}, 100)
	return dialed(t, addr, client.Options{Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return counter{conn, deletes}, err
	}}), deletes
}

// TestLockIsFreeOnceTheServersWriteAgain has a holder release the lock, and a waiter
// in the line give up, while the disk is full.
func TestLockIsFreeOnceTheServersWriteAgain(t *testing.T) {
	disk := vfs.NewMem()
	addr := serveOn(t, disk)
	holder, released := dialCounted(t, addr)
	waiter, given := dialCounted(t, addr)
	next := dialed(t, addr, client.Options{})
	h, err := NewLock(holder, "/lock", Options{}).Acquire(awaittest.Within(t))
	must(t, err)
	waiting, giveUp := context.WithCancel(awaittest.Within(t))
	defer giveUp()
	gone := make(chan error, 1)
	go func() {
		_, err := NewLock(waiter, "/lock", Options{}).Acquire(waiting)
		gone <- err
	}()
	awaitQueue(t, next, "/lock", 2)
	fill(t, disk, next)
	giveUp()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("the one that gave up: %v", err)
	}
	if err := h.Release(awaittest.Within(t)); !errors.Is(err, zk.ErrNotReadOnly) {
		t.Errorf("Release on a full disk: %v", err)
	}
	for range 3 { // Release's own, and two in the background
		await(t, released)
	}
	for range 2 {
		await(t, given)
	}
	drain(t, disk, next)
	_, err = NewLock(next, "/lock", Options{}).Acquire(awaittest.Within(t))
	must(t, err)
}

// TestLostLockIsFreeThoughItsSessionLives has servers that answer pings but cannot
// prove the session in time. The lock is then lost for its own program too.
func TestLostLockIsFreeThoughItsSessionLives(t *testing.T) {
	disk := vfs.NewMem()
	addr := serveOn(t, disk)
	holder, next := dialed(t, addr, client.Options{}), dialed(t, addr, client.Options{})
	h, err := NewLock(holder, "/lock", Options{}).Acquire(awaittest.Within(t))
	must(t, err)
	fill(t, disk, next)
	select {
	case <-h.Lost():
	case <-awaittest.Within(t).Done():
		t.Fatal("a lock that nobody can prove is not lost")
	}
	if err := holder.Err(); err != nil {
		t.Fatalf("the session has ended, so this shows nothing: %v", err)
	}
	drain(t, disk, next)
	second, err := NewLock(next, "/lock", Options{}).Acquire(awaittest.Within(t))
	must(t, err)
	must(t, second.Release(awaittest.Within(t)))
	_, err = NewLock(holder, "/lock", Options{}).Acquire(awaittest.Within(t))
	must(t, err)
}

// fill uses up the space on a disk, until the servers refuse a write.
func fill(t *testing.T, disk *vfs.Mem, c *client.Client) {
	t.Helper()
	_, _, err := c.Create(awaittest.Within(t), "/full", nil, client.CreateOptions{})
	must(t, err)
	disk.SetCapacity(disk.Used())
	for err == nil {
		_, err = c.Set(awaittest.Within(t), "/full", make([]byte, 100_000), -1)
	}
}

// drain frees the space, and waits until the servers write again.
func drain(t *testing.T, disk *vfs.Mem, c *client.Client) {
	t.Helper()
	disk.SetCapacity(-1)
	_, err := c.Set(awaittest.Within(t), "/full", nil, -1)
	for ; errors.Is(err, zk.ErrNotReadOnly); _, err = c.Set(awaittest.Within(t), "/full", nil, -1) {
	}
	must(t, err)
}

func await(t *testing.T, told <-chan struct{}) {
	t.Helper()
	select {
	case <-told:
	case <-awaittest.Within(t).Done():
		t.Fatal("the servers refused once, and were not asked again")
	}
}
