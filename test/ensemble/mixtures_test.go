//go:build linux && interop

package ensemble

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/test/servers"
	"github.com/conclave-project/conclave/test/workload"
	"github.com/conclave-project/conclave/zk"
)

// mixtures are the combinations of kinds. The leader is a server's id.
var mixtures = []struct {
	name, kinds string
	observers   []int
	leader      int
}{
	{"one of three follows Java 3.9", "G J8 J9", nil, 3},
	{"one of three leads", "J8 J9 G", nil, 3},
	{"two of three follow Java 3.8", "G G J8", nil, 3},
	{"two of three, one leads", "J9 G G", nil, 3},
	{"two of five follow Java 3.9", "G G J8 J9 J9", nil, 5},
	{"three of five, one leads", "J9 J8 G G G", nil, 5},
	{"observes Java 3.8", "J9 J9 J8 G", []int{4}, 3},
	{"observed by Java 3.8 and 3.9", "G G G J8 J9", []int{4, 5}, 3},
}

// A quorum elects its leader and serves; the others join empty under load; a client of each
// server does every kind of operation; the leader is killed and comes back.
func TestMixtures(t *testing.T) {
	for _, mix := range mixtures {
		t.Run(mix.name, func(t *testing.T) {
			s := newScene(t, servers.EnsembleOptions{Kinds: kinds(t, mix.kinds), Observers: mix.observers})
			s.startUnder(mix.leader)
			s.work(workload.Options{Writers: 2, Readers: 1, Pause: time.Millisecond, StaleAllowed: true})
			s.java = startJava(t, servers.Apache39, s.load, s.e.Addrs())
			s.await(200)
			s.startRest()
			for _, m := range s.e.Members {
				everyOperation(t, m)
				syncsAmongWrites(t, m)
			}
			must(t, s.e.Member(mix.leader).Kill())
			s.leader()
			s.await(200)
			s.startRest()
			s.await(200)
			s.check()
			if n := s.lost(); n != 0 {
				t.Errorf("%d sessions were lost", n)
			}
		})
	}
}

// everyOperation lets a client of one server do every kind of operation, and checks the
// results in another session on the same server.
func everyOperation(t *testing.T, m *servers.Member) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := client.Dial(ctx, m.Addr, client.Options{})
	must(t, err)
	other, err := client.Dial(ctx, m.Addr, client.Options{})
	must(t, err)
	defer other.Close()
	top := fmt.Sprintf("/every-%d", m.ID)
	_, _, err = c.Create(ctx, top, nil, client.CreateOptions{})
	must(t, err)
	_, _, watch, err := other.ChildrenW(ctx, top)
	must(t, err)
	var made []string
	for _, mode := range []zk.CreateMode{zk.Persistent, zk.PersistentSequential, zk.Ephemeral, zk.EphemeralSequential, zk.Container, zk.PersistentTTL} {
		o := client.CreateOptions{Mode: mode}
		if mode == zk.PersistentTTL {
			o.TTL = time.Hour
		}
		path, _, err := c.Create(ctx, fmt.Sprintf("%s/m%d-", top, mode), []byte("x"), o)
		must(t, err)
		made = append(made, path)
	}
	if event, ok := <-watch.Events(); !ok || event.Path != top {
		t.Errorf("server %d: a watch of children told %+v, %v", m.ID, event, ok)
	}
	_, err = c.Multi(ctx, client.SetOp(made[0], []byte("y"), 0), client.CreateOp(top+"/multi", nil, client.CreateOptions{}),
		client.DeleteOp(made[1], -1), client.CheckOp(top, -1))
	must(t, err)
	if _, err := c.SetACL(ctx, made[0], zk.OpenACL(), 0); err != nil {
		t.Errorf("server %d: set an ACL: %v", m.ID, err)
	}
	if _, err := c.Set(ctx, made[0], nil, 7); err == nil {
		t.Errorf("server %d: a wrong version was taken", m.ID)
	}
	must(t, c.Close())
	must(t, other.Sync(ctx, top))
	names, _, err := other.Children(ctx, top)
	must(t, err)
	slices.Sort(names)
	want := []string{"multi"}
	for i, path := range made {
		if i == 0 || i > 3 {
			want = append(want, strings.TrimPrefix(path, top+"/"))
		}
	}
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("server %d: %q below %s, expected %q", m.ID, names, top, want)
	}
}

// syncsAmongWrites sends syncs and writes of several sessions through one server, many at a
// time. Apache's follower matches its leader's answers with one queue for both, so a leader
// that answers a sync out of order leaves all its clients without answers for ever.
func syncsAmongWrites(t *testing.T, m *servers.Member) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const sessions, requests = 4, 200
	path := fmt.Sprintf("/every-%d", m.ID)
	failures := make(chan error, sessions)
	for range sessions {
		go func() {
			c, err := client.Dial(ctx, m.Addr, client.Options{})
			if err != nil {
				failures <- err
				return
			}
			defer c.Close()
			failures <- alternate(ctx, c, path, requests)
		}()
	}
	for range sessions {
		if err := <-failures; err != nil {
			t.Fatalf("server %d, %s: syncs among writes: %v", m.ID, m.Kind.Name(), err)
		}
	}
}

// alternate sends syncs and writes alternately, all at once, and waits for the answers.
func alternate(ctx context.Context, c *client.Client, path string, requests int) error {
	var futures []*client.Future
	for i := range requests {
		r := zk.Request{Op: zk.OpSetData, Path: path, Version: -1}
		if i%2 == 0 {
			r = zk.Request{Op: zk.OpSync, Path: path}
		}
		f, err := c.Submit(ctx, r)
		if err != nil {
			return err
		}
		futures = append(futures, f)
	}
	for i, f := range futures {
		if _, err := f.Wait(ctx); err != nil {
			return fmt.Errorf("answer %d: %w", i, err)
		}
	}
	return nil
}
