package conclavetest

import (
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/client/recipes"
	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/zk"
)

// onAFollower returns a client of a follower, with the shortest session that
// ZooKeeper grants, and a function that partitions that follower from the others.
func onAFollower(t *testing.T, e *Ensemble) (c *client.Client, cut func()) {
	t.Helper()
	leader := e.Leader()
	follower := leader%3 + 1
	c, err := client.Dial(awaittest.Within(t), e.Addr(follower), client.Options{SessionTimeout: 2 * e.opts.tick})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Detach() })
	return c, func() {
		e.Cut(follower, leader)
		e.Cut(follower, follower%3+1)
	}
}

// TestSessionIsNotExpiredWhileItIsProven partitions a follower, which goes on
// answering pings while the others expire the session.
func TestSessionIsNotExpiredWhileItIsProven(t *testing.T) {
	t.Parallel()
	e := Start(t, TickTime(2*time.Second)) // so that a busy machine loses no session of two ticks
	a, cut := onAFollower(t, e)
	if _, _, err := a.Create(awaittest.Within(t), "/a", nil, client.CreateOptions{Mode: zk.Ephemeral}); err != nil {
		t.Fatal(err)
	}
	_, found, gone, err := e.Client(t).ExistsW(awaittest.Within(t), "/a")
	if err != nil || !found {
		t.Fatal(found, err)
	}
	cut()
	select {
	case <-gone.Events():
	case <-awaittest.Within(t).Done():
		t.Fatal("the session does not expire")
	}
	if until, _ := a.ProvenUntil(); until > clock.Now() {
		t.Errorf("the session has expired, and is proven for another %v", until.Sub(clock.Now()))
	}
}

// TestLockOfAPartitionedClientIsLostBeforeAnotherHasIt loses the lock even though its
// client is still connected.
func TestLockOfAPartitionedClientIsLostBeforeAnotherHasIt(t *testing.T) {
	t.Parallel()
	e := Start(t, TickTime(2*time.Second)) // so that a busy machine loses no session of two ticks
	a, cut := onAFollower(t, e)
	b := e.Client(t)
	held, err := recipes.NewLock(a, "/lock", recipes.Options{}).Acquire(awaittest.Within(t))
	if err != nil {
		t.Fatal(err)
	}
	cut()
	if _, err := recipes.NewLock(b, "/lock", recipes.Options{}).Acquire(awaittest.Within(t)); err != nil {
		t.Fatal(err)
	}
	if left := held.ProvenUntil().Sub(clock.Now()); left > 0 {
		t.Errorf("another has the lock, and it is proven for another %v", left)
	}
	select {
	case <-held.Lost():
	case <-time.After(time.Minute):
		t.Error("another has the lock, and it is not lost")
	}
}
