package zookeeper_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/queue"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/zk"
)

// queued starts candidates one after the other, so that they wait in this order, and
// returns a channel to which each sends its id when it leads.
func queued(t *testing.T, addr string, ids ...string) (electors map[string]*election.Elector, led chan string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	electors, led = make(map[string]*election.Elector), make(chan string, 100)
	c := operator(t, addr)
	ended := make(chan struct{}, len(ids))
	for i, id := range ids {
		elector, err := election.New(open(t, addr), "e", election.Options{ID: id, Lease: 20 * time.Second,
			Retry: time.Millisecond, RetryMax: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		electors[id] = elector
		go func() {
			_ = elector.Run(ctx, func(ctx context.Context, _ election.Leadership) error {
				led <- id
				<-ctx.Done()
				return nil
			})
			ended <- struct{}{}
		}()
		awaitQueue(t, c, i+1)
	}
	t.Cleanup(func() {
		cancel()
		for range ids {
			<-ended
		}
	})
	return electors, led
}

// TestTransferPassesThoseBetween: b and c wait before the chosen candidate. They are
// taken out of the queue, wait again and lead later.
func TestTransferPassesThoseBetween(t *testing.T) {
	addr := startServer(t)
	electors, led := queued(t, addr, "a", "b", "c", "d")
	if first := <-led; first != "a" {
		t.Fatalf("%s leads first", first)
	}
	if err := electors["a"].TransferTo(awaittest.Within(t), "d"); err != nil {
		t.Fatal(err)
	}
	if next := <-led; next != "d" {
		t.Fatalf("%s leads after a transfer to d", next)
	}
	var later []string
	leader := "d"
	for range 3 {
		awaitQueue(t, operator(t, addr), 4) // the candidate that was taken out is back
		if err := electors[leader].Resign(awaittest.Within(t)); err != nil {
			t.Fatal(err)
		}
		leader = <-led
		later = append(later, leader)
	}
	slices.Sort(later)
	if !slices.Equal(slices.Compact(later), []string{"a", "b", "c"}) {
		t.Errorf("after that %v led", later)
	}
}

// TestTransferDoesNotPassOtherClients: a candidate of Curator that waits in between would
// consider itself the leader, so the transfer is refused and the queue stays as it is.
func TestTransferDoesNotPassOtherClients(t *testing.T) {
	addr := startServer(t)
	c := operator(t, addr)
	electors, led := queued(t, addr, "a")
	<-led
	curator := "/conclave/elections/e/_c_00000000-0000-0000-0000-000000000000-latch-"
	if _, _, err := c.Create(awaittest.Within(t), curator, []byte("curator"), client.CreateOptions{Mode: zk.EphemeralSequential}); err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = open(t, addr).Acquire(t.Context(), claim("z", 20*time.Second))
	}()
	awaitQueue(t, c, 3)
	err := electors["a"].TransferTo(awaittest.Within(t), "z")
	if err == nil || !strings.Contains(err.Error(), "other clients") {
		t.Errorf("TransferTo returned %v", err)
	}
	if err := electors["a"].TransferTo(awaittest.Within(t), "nobody"); !errors.Is(err, election.ErrNoCandidate) {
		t.Errorf("TransferTo nobody returned %v", err)
	}
	select {
	case id := <-led:
		t.Errorf("%s was elected", id)
	default:
	}
}

// TestBookOfAnotherProgramIsLeftAlone: the data of the election's znode may belong to
// another program. There is no history then, and elections go on.
func TestBookOfAnotherProgramIsLeftAlone(t *testing.T) {
	addr := startServerFor(t, time.Minute)
	c := operator(t, addr)
	for _, path := range []string{"/conclave", "/conclave/elections", "/conclave/elections/e"} {
		if _, _, err := c.Create(awaittest.Within(t), path, []byte("somebody's"), client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	b := open(t, addr)
	grant, err := b.Acquire(awaittest.Within(t), claim("a", 20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Release(awaittest.Within(t), grant); err != nil {
		t.Fatal(err)
	}
	data, _, err := c.Get(awaittest.Within(t), "/conclave/elections/e")
	if err != nil || string(data) != "somebody's" {
		t.Errorf("the data is %q, %v", data, err)
	}
	if _, err := b.(*queue.Backend).History(awaittest.Within(t), "e"); err == nil {
		t.Error("a history was made up")
	}
}

// TestMetadataOutlivesALeaderThatKnowsNone: a leader from before metadata existed overwrites
// it with the id and the nomination, and understands no answer longer than one line. The
// candidate answers with one line, and announces its metadata again when it leads.
func TestMetadataOutlivesALeaderThatKnowsNone(t *testing.T) {
	addr := startServerFor(t, time.Minute)
	c, b := operator(t, addr), open(t, addr)
	grant, err := b.Acquire(awaittest.Within(t), claim("a", 20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	next := claim("b", 20*time.Second)
	next.Metadata = []byte("10.0.0.7\n\xff")
	led := make(chan error, 1)
	go func() {
		_, err := open(t, addr).Acquire(awaittest.Within(t), next)
		led <- err
	}()
	path := "/conclave/elections/e/" + awaitQueue(t, c, 2)[1]
	awaitData(t, c, path, "b\n\n"+string(next.Metadata))
	if _, err := c.Set(awaittest.Within(t), path, []byte("b\nnominated"), -1); err != nil {
		t.Fatal(err)
	}
	awaitData(t, c, path, "b\nready")
	if err := b.Release(awaittest.Within(t), grant); err != nil {
		t.Fatal(err)
	}
	if err := <-led; err != nil {
		t.Fatal(err)
	}
	awaitData(t, c, path, "b\nready\n"+string(next.Metadata))
	for view := range b.Observe(awaittest.Within(t), "e") {
		if view.Leader != "b" || string(view.Metadata) != string(next.Metadata) {
			t.Errorf("an observer sees %+v", view)
		}
		break
	}
}

// awaitData returns once a znode has the data.
func awaitData(t *testing.T, c *client.Client, path, want string) {
	t.Helper()
	last := ""
	defer func() {
		if last != want {
			t.Logf("it is %q", last)
		}
	}()
	awaittest.Until(t, fmt.Sprintf("the data of %s is %q", path, want), func() bool {
		data, _, err := c.Get(awaittest.Within(t), path)
		if err != nil {
			t.Fatal(err)
		}
		last = string(data)
		return last == want
	})
}
