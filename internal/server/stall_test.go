package server

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/bubble"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// TestStalledDiskOfALeaderEndsNoLivingSession: the others have everything that it proposes.
// Once 64 MiB wait for its disk, the leader reads nothing more from its learners, not even
// heartbeats of sessions. It gives up its role, and ends no session until then.
func TestStalledDiskOfALeaderEndsNoLivingSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout, silence = 3 * time.Second, 7 * time.Second
		gates := map[quorum.ID]*gate{1: {}, 2: {}, 3: {}}
		all, _, net := wired(t, 3, func(c *Config) {
			c.TickTime, c.SilenceTime, c.SessionMin, c.SessionMax = 400*time.Millisecond, silence, 0, 0
			c.FS = &vfs.Faulty{Disk: vfs.NewMem(), Before: gates[c.ID].pass}
		})
		leads := func() quorum.ID {
			for id, s := range all {
				if s.Serves() && s.Role().Mode == ModeLeader {
					return id
				}
			}
			return 0
		}
		awaittest.Until(t, "there is a leader", func() bool { return leads() != 0 })
		leader := leads()
		follower := leader%3 + 1
		awaittest.Until(t, "another server follows", func() bool { return all[follower].Serves() })
		dial := func(id quorum.ID, timeout time.Duration) *client.Client {
			c, err := client.Dial(t.Context(), bubble.Host(int(id))+":2181", client.Options{SessionTimeout: timeout,
				Dialer: net.Dialer(clientMachine), Clock: bubble.Clock(1)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Detach() })
			return c
		}
		ctx := t.Context()
		idle := dial(follower, timeout)
		if _, _, err := idle.Create(ctx, "/mine", nil, client.CreateOptions{Mode: zk.Ephemeral}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := dial(leader, silence).Create(ctx, "/big", nil, client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}

		gates[leader].shut()
		defer gates[leader].open()
		writing, stop := context.WithCancel(ctx)
		defer stop()
		var writers sync.WaitGroup
		for range 4 {
			c := dial(leader, silence)
			writers.Go(func() {
				for writing.Err() == nil {
					if _, err := c.Set(writing, "/big", bytes.Repeat([]byte{1}, 900_000), -1); err != nil {
						return
					}
				}
			})
		}
		old := all[leader]
		elections := old.Status().Elections
		awaittest.Until(t, "the leader gives up its role", func() bool {
			return old.Role().Mode != ModeLeader || old.Status().Elections != elections
		})
		stop()
		gates[leader].open()
		writers.Wait()
		awaittest.Until(t, "there is a leader again", func() bool { return leads() != 0 })
		if !all[leads()].KnowsSession(idle.SessionID()) {
			t.Errorf("the session of a client that has pinged its follower all the time has ended: %v, %v", idle.State(), idle.Err())
		}
		if _, there, err := dial(follower, silence).Exists(ctx, "/mine"); err != nil || !there {
			t.Errorf("its ephemeral is there: %v, %v", there, err)
		}
	})
}

// gate holds up the syncs of a log while it is shut.
type gate struct {
	mu     sync.Mutex
	closed chan struct{}
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = make(chan struct{})
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed != nil {
		close(g.closed)
		g.closed = nil
	}
}

func (g *gate) pass(op vfs.Op) error {
	if op.Kind != vfs.KindSync || !strings.Contains(op.Name, "log.") {
		return nil
	}
	g.mu.Lock()
	closed := g.closed
	g.mu.Unlock()
	if closed != nil {
		<-closed
	}
	return nil
}
