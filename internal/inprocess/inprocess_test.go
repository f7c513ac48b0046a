package inprocess

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/server"
)

func begin(t *testing.T, servers, observers int) *Ensemble {
	t.Helper()
	base := server.Default()
	base.TickTime, base.SilenceTime = 200*time.Millisecond, time.Second
	base.PreallocBytes = 1 << 20
	e, err := Start(Options{Servers: servers, Observers: observers, Base: base, Logger: func(id int) *slog.Logger {
		if os.Getenv("LOCAL_LOG") == "" {
			return slog.New(slog.DiscardHandler)
		}
		return slog.New(slog.NewTextHandler(os.Stderr, nil)).With("server", id)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// lead waits for a leader.
func lead(t *testing.T, e *Ensemble) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := e.Await(ctx, func() bool { return e.Leader() != 0 }); err != nil {
		t.Fatal("nobody leads")
	}
	return e.Leader()
}

func TestThreeServersElectServeAndSurviveTheirLeader(t *testing.T) {
	e := begin(t, 3, 0)
	start := time.Now()
	first := lead(t, e)
	t.Logf("server %d leads after %v", first, time.Since(start))
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := client.New(strings.Join(e.Addrs(), ","), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range 20 {
		if _, _, err := c.Create(ctx, fmt.Sprintf("/n%d", i), []byte("x"), client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Kill(first); err != nil {
		t.Fatal(err)
	}
	start = time.Now()
	second := lead(t, e)
	t.Logf("server %d leads %v after the end of server %d", second, time.Since(start), first)
	if err := e.Start(first); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if _, _, err := c.Get(ctx, fmt.Sprintf("/n%d", i)); err != nil {
			t.Fatal(err)
		}
	}
}

// serve waits until all running servers serve.
func serve(t *testing.T, e *Ensemble) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	err := e.Await(ctx, func() bool {
		for id := 1; id <= e.Size(); id++ {
			if s := e.Server(id); s != nil && !s.Serves() {
				return false
			}
		}
		return true
	})
	if err != nil {
		t.Fatal("not all serve")
	}
}

// A cable is pulled: the leader receives nothing, and the others elect a new one after the
// time of silence. Then the cable is plugged in again.
func TestCutLeaderIsReplacedAndFollowsWhenHealed(t *testing.T) {
	e := begin(t, 3, 1)
	serve(t, e)
	first := lead(t, e)
	for id := 1; id <= 4; id++ {
		if id != first {
			if err := e.Cut(first, id); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := e.Await(ctx, func() bool { l := e.Leader(); return l != 0 && l != first }); err != nil {
		t.Fatal("nobody else leads")
	}
	e.Heal()
	if err := e.Await(ctx, func() bool {
		role := e.Server(first).Role()
		return role.Mode == server.ModeFollower && int(role.Leader) == e.Leader()
	}); err != nil {
		t.Errorf("server %d is %+v", first, e.Server(first).Role())
	}
	serve(t, e)
	if role := e.Server(4).Role(); role.Mode != server.ModeObserver || e.Votes(4) || !e.Votes(3) {
		t.Errorf("server 4 is %+v", role)
	}
}

func TestRolesAreReportedToObservers(t *testing.T) {
	roles := make(chan string, 1000)
	base := server.Default()
	base.TickTime, base.PreallocBytes = 200*time.Millisecond, 64<<10
	e, err := Start(Options{Servers: 2, Base: base, RoleChanged: func(id int, role server.Role) {
		roles <- fmt.Sprintf("%d %s %d %d", id, role.Mode, role.Epoch, role.Leader)
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	serve(t, e)
	leader := lead(t, e)
	follower, epoch := 3-leader, e.Server(leader).Role().Epoch
	if err := e.Stop(leader); err != nil {
		t.Fatal(err)
	}
	missing := map[string]bool{
		fmt.Sprintf("%d leader %d %d", leader, epoch, leader):     true,
		fmt.Sprintf("%d follower %d %d", follower, epoch, leader): true,
		fmt.Sprintf("%d looking 0 0", follower):                   true,
		fmt.Sprintf("%d looking 0 0", leader):                     true,
	}
	for late := time.After(20 * time.Second); len(missing) > 0; {
		select {
		case role := <-roles:
			delete(missing, role)
		case <-late:
			t.Fatalf("not told: %v", missing)
		}
	}
}

func TestWrongNumbersAreRefused(t *testing.T) {
	e := begin(t, 1, 0)
	for what, err := range map[string]error{
		"kill 0": e.Kill(0), "kill 2": e.Kill(2), "start 1": e.Start(1), "cut 1 1": e.Cut(1, 1), "cut 1 2": e.Cut(1, 2), "cut 3 1": e.Cut(3, 1),
	} {
		if err == nil {
			t.Errorf("%s was done", what)
		}
	}
	if err := e.Kill(1); err != nil {
		t.Fatal(err)
	}
	if e.Kill(1) == nil || e.Server(1) != nil || e.Leader() != 0 {
		t.Error("server 1 is not down")
	}
	if err := e.Start(1); err != nil {
		t.Fatal(err)
	}
	serve(t, e)
	if _, err := Start(Options{}); err == nil {
		t.Error("an ensemble of nobody was started")
	}
}

// quick returns a common configuration in which no server counts as silent only because the
// machine is slow.
func quick() server.Config {
	base := server.Default()
	base.TickTime, base.SilenceTime, base.PreallocBytes = 200*time.Millisecond, 20*time.Second, 1<<20
	return base
}

// reconfigurable returns quick with reconfigs that any client may request.
func reconfigurable() server.Config {
	base := quick()
	base.ReconfigEnabled, base.Auth.SkipACL = true, true
	return base
}
