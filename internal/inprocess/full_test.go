package inprocess

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/vfs"
)

// A server whose disk has no space for an epoch stays out of elections until there is
// space; it does not end.
func TestServerWithoutSpaceForAnEpochWaitsForIt(t *testing.T) {
	var full atomic.Int32 // number of the server whose disk is full
	refused := make(chan struct{}, 100)
	base := quick()
	e := startFull(t, base, func(id int, op vfs.Op) bool {
		if int(full.Load()) != id {
			return false
		}
		if strings.HasSuffix(op.Name, "spare") { // its file system copies on write
			return op.Kind == vfs.KindWrite
		}
		if !strings.Contains(op.Name, "acceptedEpoch") || op.Kind != vfs.KindCreate {
			return false
		}
		refused <- struct{}{}
		return true
	})
	first := lead(t, e)
	full.Store(int32(first%3 + 1))
	if err := e.Kill(first); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		select {
		case <-refused:
		case <-time.After(20 * time.Second):
			t.Fatal("the full disk was not asked a second time")
		}
	}
	if id := e.Leader(); id != 0 {
		t.Fatalf("server %d leads without a quorum of promises", id)
	}
	full.Store(0)
	lead(t, e)
}

// A learner whose disk has no space for its leader's state waits for space. It used to end,
// again after every start.
func TestLearnerWithoutSpaceForASnapshotWaitsForIt(t *testing.T) {
	var full atomic.Int32 // number of the server whose disk is full
	refused := make(chan struct{}, 100)
	base := server.Default()
	base.TickTime, base.SilenceTime, base.PreallocBytes = 200*time.Millisecond, time.Second, 64<<10
	base.SnapCount, base.HistoryMax, base.PurgeInterval = 4, 2, 20*time.Millisecond // so a DIFF is not possible
	e := startFull(t, base, func(id int, op vfs.Op) bool {
		if int(full.Load()) != id || !strings.Contains(op.Name, "tmp.snapshot") || op.Kind != vfs.KindWrite {
			return false
		}
		refused <- struct{}{}
		return true
	})
	away := lead(t, e)%3 + 1
	if err := e.Kill(away); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, e.Addr(lead(t, e)), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range 100 {
		if _, _, err := c.Create(ctx, fmt.Sprintf("/n%d", i), nil, client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	full.Store(int32(away))
	if err := e.Start(away); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		select {
		case <-refused:
		case <-ctx.Done():
			t.Fatal("the full disk was not asked again and again")
		}
	}
	full.Store(0)
	if err := e.Await(ctx, func() bool { return e.Server(away).Role().Mode == server.ModeFollower }); err != nil {
		t.Fatalf("with space it is %v", e.Server(away).Role())
	}
}

// startFull starts three servers. full decides which operations fail for lack of space. No
// server may end.
func startFull(t *testing.T, base server.Config, full func(id int, op vfs.Op) bool) *Ensemble {
	t.Helper()
	e, err := Start(Options{Servers: 3, Base: base, FS: func(id int) vfs.FS {
		return &vfs.Faulty{Disk: vfs.NewMem(), Before: func(op vfs.Op) error {
			if full(id, op) {
				return vfs.ErrNoSpace
			}
			return nil
		}}
	}, Ended: func(id int, reason error) { t.Errorf("server %d has ended: %v", id, reason) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}
