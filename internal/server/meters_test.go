package server

import (
	"testing"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/tally"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// TestMetersCountEachRequestOnceAndItsBytes makes a write, three reads, and a write that fires
// a watch.
func TestMetersCountEachRequestOnceAndItsBytes(t *testing.T) {
	s := start(t, vfs.NewMem(), nil)
	p := dial(t, s, nil)
	asked := int64(0)
	do := func(r zk.Request) {
		r.Xid = p.xid + 1
		asked += int64(len(wire.AppendRequest(nil, &r)))
		p.do(r)
	}
	do(create("/m", "", 0))
	for range 3 {
		do(zk.Request{Op: zk.OpGetData, Path: "/m", Watch: true})
	}
	do(zk.Request{Op: zk.OpSetData, Path: "/m", Data: []byte("data"), Version: -1})
	event := zk.Event{Type: zk.EventNodeDataChanged, State: zk.StateSyncConnected, Path: "/m"}
	awaittest.Until(t, "all are counted", func() bool {
		m := s.Meters()
		return m.Reads.Count == 3 && m.Updates.Count == 2 && m.BytesReceived == asked &&
			m.BytesEvents == int64(len(wire.AppendEvent(nil, &event))) && m.BytesReplied > 0
	})
	m := s.Meters()
	if m.SyncTimes.Count == 0 || m.Batches.Count != m.SyncTimes.Count || m.Batches.Sum != 3 {
		t.Errorf("%d syncs, %d batches with %d records", m.SyncTimes.Count, m.Batches.Count, m.Batches.Sum)
	}
	s.ResetStats()
	if got := s.Meters(); got.Reads.Count != 3 || got.BytesReceived != asked {
		t.Error("a reset has set the meters back")
	}
}

func TestTimeWithoutServiceIsMeasuredFromLossToService(t *testing.T) {
	var m meters
	m.noteRole(ModeLooking, ModeFollower, 5000) // the start
	m.noteRole(ModeFollower, ModeLooking, 6000)
	m.noteRole(ModeLooking, ModeReadOnly, 6100) // only readers are served
	m.noteRole(ModeReadOnly, ModeLooking, 6200)
	m.noteRole(ModeLooking, ModeLeader, 6300)
	m.noteRole(ModeLeader, ModeLooking, 7000)
	m.noteRole(ModeLooking, ModeFollower, 7050)
	if g := m.gaps.report(); g.Count != 2 || g.Sum != 350_000 {
		t.Errorf("%d gaps of %d µs", g.Count, g.Sum)
	}
	if g := m.leaderGaps.report(); g.Count != 1 || g.Sum != 300_000 {
		t.Errorf("%d gaps of %d µs before this server led", g.Count, g.Sum)
	}
}

func TestLearnersThatAreSynchronizedAreCountedByKind(t *testing.T) {
	var m meters
	m.noteSent(1, zab.KindSnap)
	m.noteSent(2, zab.KindSnap)
	m.noteSent(3, zab.KindDiff)
	m.noteSent(4, zab.KindTrunc)
	m.noteSent(1, zab.KindProposal)
	m.noteSent(1, zab.KindUpToDate)
	m.noteSent(1, zab.KindUpToDate) // the synchronization is over already
	m.endSync(2)                    // its link ends
	m.endSync(3)
	if snaps, diffs := m.snaps.Load(), m.diffs.Load(); snaps != 2 || diffs != 2 {
		t.Errorf("%d by snapshots, %d by what they lacked", snaps, diffs)
	}
	if d := m.snapsUnderWay.report(); d.Count != 4 || d.Sum != 1+2+1+0 {
		t.Errorf("snapshots under way: %d in %d", d.Sum, d.Count)
	}
	if d := m.diffsUnderWay.report(); d.Count != 3 || d.Sum != 1+2+1 {
		t.Errorf("others under way: %d in %d", d.Sum, d.Count)
	}
}

func TestProgressIsMeasuredInSteps(t *testing.T) {
	var m meters
	for _, c := range []struct {
		state     zab.State
		phase     zab.Phase
		elections int64
		nowMs     int64
	}{
		{zab.Looking, zab.Election, 0, 100}, {zab.Following, zab.Discovery, 1, 130}, {zab.Following, zab.Synchronization, 1, 150},
		{zab.Following, zab.Synchronization, 1, 160}, {zab.Following, zab.Broadcast, 1, 190}, {zab.Following, zab.Broadcast, 1, 300},
		{zab.Looking, zab.Election, 1, 400}, {zab.Observing, zab.Synchronization, 2, 405}, {zab.Looking, zab.Election, 2, 500},
		{zab.Observing, zab.Synchronization, 3, 507}, {zab.Observing, zab.Broadcast, 3, 508},
		{zab.Following, zab.Discovery, 4, 600}, // it looked in between
		{zab.Leading, zab.Synchronization, 4, 700}, {zab.Leading, zab.Broadcast, 4, 800},
	} {
		m.noteProgress(c.state, c.phase, c.elections, c.nowMs)
	}
	if d := m.elections.report(); d.Count != 4 || d.Sum != 30+5+7+0 {
		t.Errorf("%d elections in %d ms", d.Count, d.Sum)
	}
	if d := m.followerSyncs.report(); d.Count != 1 || d.Sum != 40 {
		t.Errorf("%d times as a follower in %d ms", d.Count, d.Sum)
	}
	if d := m.observerSyncs.report(); d.Count != 1 || d.Sum != 1 {
		t.Errorf("%d times as an observer in %d ms", d.Count, d.Sum)
	}
}

func TestARunCountsEachNumber(t *testing.T) {
	var d distribution
	r := run{of: &d}
	for _, v := range []int64{0, 0, 7, 7, 7, 0, 3} {
		r.note(v)
	}
	r.end()
	r.end()
	if got := d.report(); got.Count != 7 || got.Sum != 24 || got.Buckets[0] != 3 || got.Buckets[tally.BucketOf(7)] != 3 || got.Buckets[3] != 1 {
		t.Errorf("%d numbers, %d in all", got.Count, got.Sum)
	}
}

func TestMetersAllocateNothing(t *testing.T) {
	var d distribution
	if n := testing.AllocsPerRun(100, func() { d.note(1<<50, 3) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if d.now.Buckets[tally.Buckets-1] == 0 {
		t.Error("what is larger than all buckets is in none")
	}
}
