package inprocess

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/server"
)

// The learners' wall clocks are ahead of the leader's by this much, which shows in every
// measurement that begins with the leader's decision and uses both clocks.
const ahead = time.Hour

// clocks are how far each server's wall clock is ahead, by server number.
type clocks [5]atomic.Int64

func meteredEnsemble(t *testing.T, wall *clocks) *Ensemble {
	t.Helper()
	base := quick()
	e, err := Start(Options{Servers: 3, Observers: 1, Base: base, Change: func(id int, c *server.Config) {
		c.Wall = func() time.Time { return time.Now().Add(time.Duration(wall[id].Load())) }
		c.HistoryMax = 4 // a server that is further behind gets a snapshot, or the log
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// away reports whether a sum of n times includes the difference between the clocks of two
// servers.
func away(sum, n int64) bool {
	least := n * ahead.Milliseconds()
	return n > 0 && sum >= least && sum < least+n*60_000
}

// TestMetersOfAnEnsemble checks a leader, two followers and an observer after a start and
// writes.
func TestMetersOfAnEnsemble(t *testing.T) {
	var wall clocks
	e := meteredEnsemble(t, &wall)
	serve(t, e)
	leader := lead(t, e)
	for id := 1; id <= 4; id++ {
		if id != leader {
			wall[id].Store(int64(ahead))
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, e.Addr(leader), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const writes = 40
	for i := range writes {
		if _, _, err := c.Create(ctx, fmt.Sprint("/n", i), nil, client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	meters := func(id int) server.Meters { return e.Server(id).Meters() }
	arrived := func() bool {
		for id := 1; id <= 4; id++ {
			m := meters(id)
			if m.Tallies.Decided.Count+m.Tallies.Followed.Count < writes || id != leader && m.Commits < writes || id < 4 && m.AckCreations.Count < writes {
				return false
			}
			if id == leader && timedAcks(t, &m) < 2 { // acks follow the sync of the disk
				return false
			}
		}
		return true
	}
	awaittest.Until(t, "all has arrived", arrived)
	for id := 1; id <= 4; id++ {
		m := meters(id)
		t.Logf("server %d: elected in %d ms, synchronized in %d and %d ms", id, m.ElectionTimes.Sum, m.FollowerSyncs.Sum, m.ObserverSyncs.Sum)
		if m.ElectionTimes.Count < 1 || m.ElectionTimes.Sum > 60_000*m.ElectionTimes.Count {
			t.Errorf("server %d: %d elections", id, m.ElectionTimes.Count)
		}
		if id == leader {
			ofLeader(t, &m)
			continue
		}
		if (m.FollowerSyncs.Count == 0) != (id == 4) || (m.ObserverSyncs.Count == 0) != (id != 4) {
			t.Errorf("server %d was synchronized %d and %d times", id, m.FollowerSyncs.Count, m.ObserverSyncs.Count)
		}
		if d := &m.Tallies.Followed; !away(d.Sum, d.Count) {
			t.Errorf("server %d: %d commits in %d ms", id, d.Count, d.Sum)
		}
		if d := &m.ProposalDelays; id < 4 && !away(d.Sum, d.Count) {
			t.Errorf("server %d: %d proposals in %d ms", id, d.Count, d.Sum)
		}
		if d := &m.AckCreations; id < 4 && !away(d.Sum, d.Count) {
			t.Errorf("server %d: %d acks in %d ms", id, d.Count, d.Sum)
		}
		if (m.Proposals < writes) != (id == 4) {
			t.Errorf("server %d has received %d proposals", id, m.Proposals)
		}
	}
}

func ofLeader(t *testing.T, m *server.Meters) {
	if m.Diffs+m.Snaps < 3 || m.DiffsUnderWay.Count+m.SnapsUnderWay.Count < 6 {
		t.Errorf("%d and %d learners were synchronized, seen %d and %d times", m.Diffs, m.Snaps, m.DiffsUnderWay.Count, m.SnapsUnderWay.Count)
	}
	if d := &m.Tallies.Decided; d.Count < 40 || d.Sum > d.Count*60_000 || m.Tallies.Followed.Count > d.Count {
		t.Errorf("%d decided in %d ms", d.Count, d.Sum)
	}
	if n := timedAcks(t, m); n != 2 {
		t.Errorf("acks of %d followers are timed", n)
	}
}

// timedAcks returns for how many followers a leader has measured acks.
func timedAcks(t *testing.T, m *server.Meters) (n int) {
	for id, d := range m.AckDelays {
		if d.Count > 0 && d.Sum < 60_000*d.Count {
			n++
		}
		if id == 4 {
			t.Error("an observer acknowledges")
		}
	}
	return n
}

// A follower that was away gets the transactions that it lacks. They are as old as its
// absence, and must not count as measurements. When a client moves to it, it asks the
// leader about the session; and without a role it closes connections.
func TestMetersOfAServerThatComesBack(t *testing.T) {
	e := meteredEnsemble(t, new(clocks))
	serve(t, e)
	leader := lead(t, e)
	follower := leader%3 + 1
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, e.Addr(leader), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	before, revalidated := e.Server(leader).Meters(), e.Server(leader).Status().Counts.Revalidated
	if err := e.Kill(follower); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if _, _, err := c.Create(ctx, fmt.Sprint("/n", i), nil, client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Start(follower); err != nil {
		t.Fatal(err)
	}
	serve(t, e)
	m := e.Server(follower).Meters()
	if m.ProposalDelays.Count > 5 || m.AckCreations.Count > 5 || m.Tallies.Followed.Count > 5 {
		t.Errorf("what it was synchronized with counts: %d, %d, %d", m.ProposalDelays.Count, m.AckCreations.Count, m.Tallies.Followed.Count)
	}
	after := e.Server(leader).Meters()
	if after.Diffs+after.Snaps != before.Diffs+before.Snaps+1 {
		t.Errorf("%d and %d learners, before %d and %d", after.Diffs, after.Snaps, before.Diffs, before.Snaps)
	}
	session := c.Session()
	moved, err := client.Dial(ctx, e.Addr(follower), client.Options{Resume: &session})
	if err != nil {
		t.Fatal(err)
	}
	defer moved.Close()
	if n := e.Server(leader).Status().Counts.Revalidated - revalidated; n != 1 || e.Server(follower).Meters().Resumed != 1 {
		t.Errorf("the leader was asked %d times", n)
	}
	for id := 1; id <= 4; id++ {
		if id != follower {
			if err := e.Stop(id); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := e.Await(ctx, func() bool { return !e.Server(follower).Serves() }); err != nil {
		t.Fatal(err)
	}
	late, err := client.New(e.Addr(follower), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	awaittest.Until(t, "a server without a role has closed a connection", func() bool { return e.Server(follower).Status().Counts.Unserved > 0 })
}
