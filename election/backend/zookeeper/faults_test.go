package zookeeper_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/zookeeper"
	"github.com/conclave-project/conclave/election/queue"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/zk"
)

// freshChroot returns a function that makes empty stores on one server.
func freshChroot(t testing.TB, addr string) func(testing.TB) string {
	var count atomic.Int64
	c, err := client.Dial(awaittest.Within(t), addr, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return func(t testing.TB) string {
		t.Helper()
		path := fmt.Sprintf("/store-%d", count.Add(1))
		if _, _, err := c.Create(awaittest.Within(t), path, nil, client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		return addr + path
	}
}

func claim(id string, lease time.Duration) election.Claim {
	nonce := fmt.Sprintf("%032x", []byte(fmt.Sprintf("%16s", id)))
	return election.Claim{Election: "e", ID: id, Nonce: nonce[:32], Lease: lease}
}

func operator(t testing.TB, addr string) *client.Client {
	t.Helper()
	c, err := client.Dial(awaittest.Within(t), addr, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestLeaderWhoseZnodeIsDeletedStepsDown (CURATOR-724).
func TestLeaderWhoseZnodeIsDeletedStepsDown(t *testing.T) {
	addr := startServer(t)
	elector, err := election.New(open(t, addr), "e", election.Options{Once: true, ID: "a", Lease: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	c := operator(t, addr)
	began := time.Now()
	err = elector.Run(awaittest.Within(t), func(ctx context.Context, _ election.Leadership) error {
		names, _, err := c.Children(ctx, "/conclave/elections/e")
		if err != nil || len(names) != 1 {
			t.Errorf("queue %v, %v", names, err)
		}
		// Not with the leadership's context, which may end before the reply comes.
		if err := c.Delete(awaittest.Within(t), "/conclave/elections/e/"+names[0], -1); err != nil {
			t.Error(err)
		}
		<-ctx.Done()
		return nil
	})
	var lost *election.LostError
	if !errors.As(err, &lost) || lost.Reason != election.ReasonTaken {
		t.Errorf("Run returned %v", err)
	}
	if took := time.Since(began); took > 15*time.Second { // the lease would have ended after 20 s
		t.Errorf("stepping down took %v", took)
	}
}

// awaitQueue returns the names of the queue, in which claim("b") comes after "a".
func awaitQueue(t testing.TB, c *client.Client, count int) []string {
	t.Helper()
	var names []string
	ctx := awaittest.Within(t)
	awaittest.Until(t, fmt.Sprintf("there are %d candidates", count), func() bool {
		var err error
		if names, _, err = c.Children(ctx, "/conclave/elections/e"); err != nil && !errors.Is(err, zk.ErrNoNode) {
			t.Fatal(err)
		}
		return len(names) == count
	})
	sortBySequence(names)
	return names
}

func sortBySequence(names []string) {
	for i := range names {
		for j := i; j > 0 && names[j][len(names[j])-10:] < names[j-1][len(names[j-1])-10:]; j-- {
			names[j], names[j-1] = names[j-1], names[j]
		}
	}
}

// tap counts what arrives on a link, and can break the link once a create was answered.
type tap struct {
	bytes     atomic.Int64 // received, without answers to pings
	answers   atomic.Int64 // the number of those answers
	dropAfter atomic.Bool  // the reply to the next create of a candidate is lost
	dropped   atomic.Bool  // the reply was lost
	onLoss    func()       // called when it is; nil: nothing
	loseMulti atomic.Bool  // the next transaction does not reach the server
}

type tapConn struct {
	net.Conn
	tap    *tap
	unread []byte       // the beginning of a frame
	lost   atomic.Int32 // the xid of the create whose reply is lost, 0 for none
}

func (p *tap) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &tapConn{Conn: conn, tap: p}, nil
}

func (c *tapConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.unread = append(c.unread, b[:n]...)
	for len(c.unread) >= 8 {
		size := 4 + int(binary.BigEndian.Uint32(c.unread))
		if len(c.unread) < size {
			break
		}
		xid := int32(binary.BigEndian.Uint32(c.unread[4:]))
		if lost := c.lost.Load(); lost != 0 && xid == lost {
			c.tap.dropped.Store(true)
			if c.tap.onLoss != nil {
				c.tap.onLoss()
			}
			_ = c.Close()
			return 0, net.ErrClosed
		}
		if xid != pingXid {
			c.tap.bytes.Add(int64(size))
			c.tap.answers.Add(1)
		}
		c.unread = c.unread[size:]
	}
	return n, err
}

const pingXid = -2

func (c *tapConn) Write(b []byte) (int, error) {
	for rest := b; len(rest) >= 12; {
		size := min(4+int(binary.BigEndian.Uint32(rest)), len(rest))
		op := zk.Op(binary.BigEndian.Uint32(rest[8:]))
		if op == zk.OpCreate2 && bytes.Contains(rest[:size], []byte("-latch-")) && c.tap.dropAfter.CompareAndSwap(true, false) {
			c.lost.Store(int32(binary.BigEndian.Uint32(rest[4:])))
		}
		if op == zk.OpMulti && c.tap.loseMulti.CompareAndSwap(true, false) {
			_ = c.Close()
			return 0, net.ErrClosed
		}
		rest = rest[size:]
	}
	return c.Conn.Write(b)
}

func openTapped(t testing.TB, addr string) (*queue.Backend, *tap) {
	t.Helper()
	p := &tap{}
	backend, err := zookeeper.New(addr, zookeeper.Options{Client: client.Options{Dialer: p.dial}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = backend.Close() })
	return backend, p
}

// TestCreateWithoutAnAnswerIsFoundAndUsed (CURATOR-498).
func TestCreateWithoutAnAnswerIsFoundAndUsed(t *testing.T) {
	addr := startServerFor(t, time.Minute)
	a, p := openTapped(t, addr)
	first, err := a.Acquire(awaittest.Within(t), claim("x", 10*time.Second)) // makes the parents
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Release(awaittest.Within(t), first); err != nil {
		t.Fatal(err)
	}
	p.dropAfter.Store(true)
	grant, err := a.Acquire(awaittest.Within(t), claim("a", 10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if !p.dropped.Load() {
		t.Fatal("the fault was not injected")
	}
	c := operator(t, addr)
	awaitQueue(t, c, 1)
	if err := a.Release(awaittest.Within(t), grant); err != nil {
		t.Fatal(err)
	}
	awaitQueue(t, c, 0)
}

// TestClaimThatEntersAgainIsReleasedWhole: the znode of a waiter was deleted, as a leader
// does for a hand-over, and the waiter gives up before the create of its next znode is
// answered. That znode would lead on nobody's behalf.
func TestClaimThatEntersAgainIsReleasedWhole(t *testing.T) {
	addr := startServerFor(t, time.Minute)
	first, err := open(t, addr).Acquire(awaittest.Within(t), claim("a", 10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	b, p := openTapped(t, addr)
	ctx, giveUp := context.WithCancel(awaittest.Within(t))
	defer giveUp()
	p.onLoss = giveUp
	refused := make(chan error, 1)
	go func() {
		_, err := b.Acquire(ctx, claim("b", 10*time.Second))
		refused <- err
	}()
	c := operator(t, addr)
	waiter := awaitQueue(t, c, 2)[1]
	p.dropAfter.Store(true)
	if err := c.Delete(awaittest.Within(t), "/conclave/elections/e/"+waiter, -1); err != nil {
		t.Fatal(err)
	}
	if err := <-refused; !errors.Is(err, context.Canceled) {
		t.Fatalf("Acquire returned %v", err)
	}
	if err := b.Release(awaittest.Within(t), election.Grant{Claim: claim("b", 10*time.Second)}); err != nil {
		t.Fatal(err)
	}
	names, _, err := c.Children(awaittest.Within(t), "/conclave/elections/e")
	if err != nil || len(names) != 1 || !strings.HasPrefix(names[0], "_c_") {
		t.Errorf("the queue is %v, %v after the release, expected that of token %d alone", names, err, first.Token)
	}
}

// TestHandOverThatIsLostWithItsConnectionIsMadeAgain: a release without it would elect the
// first waiter instead of the successor.
func TestHandOverThatIsLostWithItsConnectionIsMadeAgain(t *testing.T) {
	addr := startServerFor(t, time.Minute)
	a, p := openTapped(t, addr)
	held, err := a.Acquire(awaittest.Within(t), claim("a", time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	c, led := operator(t, addr), make(chan string, 3)
	for i, id := range []string{"b", "c", "d"} {
		b := open(t, addr)
		go func() {
			if _, err := b.Acquire(t.Context(), claim(id, time.Minute)); err == nil {
				led <- id
			}
		}()
		awaitQueue(t, c, i+2)
	}
	if err := a.Nominate(awaittest.Within(t), held, "d"); err != nil {
		t.Fatal(err)
	}
	p.loseMulti.Store(true)
	if err := a.Release(awaittest.Within(t), held); err != nil || p.loseMulti.Load() {
		t.Fatalf("Release returned %v; the fault is still to come: %v", err, p.loseMulti.Load())
	}
	if id := <-led; id != "d" {
		t.Errorf("%s leads after a hand-over to d", id)
	}
}

// TestDeathOfALeaderWakesOneCandidate: the others do not even learn of it (scenario-E15).
func TestDeathOfALeaderWakesOneCandidate(t *testing.T) {
	addr := startServerFor(t, time.Minute) // so that no session expires on a busy machine
	const waiting = 1000
	leader := open(t, addr)
	held, err := leader.Acquire(awaittest.Within(t), claim("leader", time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.Dial(awaittest.Within(t), addr, client.Options{SessionTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	granted := make(chan int, waiting)
	var taps [waiting]*tap
	for i := range waiting {
		var b *queue.Backend
		b, taps[i] = openTapped(t, addr)
		go func() {
			// Until the end of the test: nobody knows how long all of them will take.
			if _, err := b.Acquire(t.Context(), claim(fmt.Sprint("w", i), time.Minute)); err != nil {
				granted <- -1
				return
			}
			granted <- i
		}()
		awaitQueue(t, c, i+2)
		// On a busy machine all of this takes longer than a lease.
		if held, err = leader.Renew(awaittest.Within(t), held); err != nil {
			t.Fatal(err)
		}
	}
	// The second one had all its answers long before the last one came.
	awaittest.Until(t, "all have had as many answers", func() bool {
		return !slices.ContainsFunc(taps[2:], func(p *tap) bool { return p.answers.Load() < taps[1].answers.Load() })
	})
	awaitQuiet(t, taps[:])
	var before [waiting]int64
	for i := range taps {
		before[i] = taps[i].bytes.Load()
	}
	if err := leader.Release(awaittest.Within(t), held); err != nil {
		t.Fatal(err)
	}
	if first := <-granted; first != 0 {
		t.Fatalf("candidate %d was granted first", first)
	}
	awaittest.Never(t, 100*time.Millisecond, "a candidate that is not the next received something", func() bool {
		for i := 1; i < waiting; i++ {
			if received := taps[i].bytes.Load() - before[i]; received != 0 {
				t.Logf("candidate %d received %d bytes", i, received)
				return true
			}
		}
		return false
	})
}

// awaitQuiet returns once nothing has arrived for a while.
func awaitQuiet(t *testing.T, taps []*tap) {
	t.Helper()
	sum := func() (all int64) {
		for _, p := range taps {
			all += p.bytes.Load()
		}
		return all
	}
	last, since := sum(), time.Now()
	awaittest.Until(t, "nothing has arrived for a while", func() bool {
		if now := sum(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) >= 100*time.Millisecond
	})
}
