//go:build linux && interop

package command

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	apache "github.com/conclave-project/conclave/test/servers"
	"github.com/conclave-project/conclave/zk"
)

// TestAdministratorsCommandsOnApacheZooKeeper covers sessions, ephemerals and watches by
// four-letter words (Apache's admin server needs more jars than the test has), quotas, ACLs, whoami
// and sync.
func TestAdministratorsCommandsOnApacheZooKeeper(t *testing.T) {
	s, err := apache.Start(t.Context(), apache.Apache(apache.Apache39), apache.Options{
		Config: []string{"enforceQuota=true"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Kill() })
	inspectApache(t, s.Addr)
	quotaOnApache(t, s.Addr)
}

// TestReconfigOnApacheZooKeeper promotes an observer and removes a participant.
func TestReconfigOnApacheZooKeeper(t *testing.T) {
	kind := apache.Apache(apache.Apache39)
	e, err := apache.NewEnsemble(t.Context(), apache.EnsembleOptions{
		Kinds: []apache.Kind{kind, kind, kind, kind}, Observers: []int{4}, Reconfig: true, Config: []string{apache.SuperDigest},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, change := range []struct{ args, want string }{
		{"--promote 4", "1 participant, 2 participant, 3 participant, 4 participant"},
		{"--remove 3", "1 participant, 2 participant, 4 participant"},
	} {
		args := append(strings.Fields(change.args), "--json", "--server", e.Addrs(), "--auth", "digest:"+apache.SuperSecret)
		plan, said, err := asJSON[changePlan](t, newReconfig(), args...)
		if err != nil || !plan.Applied || roles(plan.After) != change.want {
			t.Fatalf("%s: %+v, %q, %v", change.args, plan, said, err)
		}
		for _, s := range plan.Servers {
			if !s.InSync || !s.InForce {
				t.Errorf("%s: %+v", change.args, s)
			}
		}
	}
}

// TestTopOnApacheZooKeeper checks what Apache's servers report when one of three is asked, also if
// they answer nothing but srvr.
func TestTopOnApacheZooKeeper(t *testing.T) {
	kind := apache.Apache(apache.Apache39)
	for allowed, told := range map[string]bool{"*": true, "srvr": false} {
		e, err := apache.NewEnsemble(t.Context(), apache.EnsembleOptions{
			Kinds: []apache.Kind{kind, kind, kind}, Reconfig: true, Config: []string{"4lw.commands.whitelist=" + allowed},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		leader, err := e.AwaitLeader(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		leadIn(t, e.Addrs(), "billing/nightly")
		busyClient(t, e.Addrs())
		got, said, err := asJSON[page](t, newTop(), "--server", e.Members[0].Addr, "--interval", "1s", "--admin-port", "0")
		if err != nil || said != "" || len(got.Servers) != 3 || len(got.Elections) != 1 || got.Elections[0].Leader != "anna" {
			t.Fatalf("allowed %s: %+v, %q, %v", allowed, got, said, err)
		}
		requests, writes := 0.0, 0.0
		for i, s := range got.Servers {
			m := e.Members[i]
			if want := map[bool]string{true: "leader", false: "follower"}[m == leader]; s.Server != m.Addr || s.Mode != want || s.Requests == nil || *s.ID != int64(m.ID) {
				t.Errorf("allowed %s: %+v", allowed, s)
				continue
			}
			requests += *s.Requests
			if s.Writes != nil {
				writes += *s.Writes
			}
			if s.SinceStart && (s.WriteTimes == nil || s.WriteTimes.P99 < s.WriteTimes.P50) {
				t.Errorf("allowed %s: %+v", allowed, s)
			}
		}
		if requests < 2 || told != (writes > 1) || told != (len(got.Clients) >= 2) || told != (got.Sessions != nil) || told == (len(got.Problems) > 0) {
			t.Errorf("allowed %s: %+v", allowed, got)
		}
		if told && got.Clients[0].Last == "" {
			t.Errorf("the busiest client: %+v", got.Clients[0])
		}
	}
}

// inspectApache inspects two sessions of one server.
func inspectApache(t *testing.T, addr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	at := []string{"--server", addr, "--admin-port", "0", "--only"}
	var ids []string
	for _, name := range []string{"/a", "/b"} {
		c, err := client.Dial(ctx, addr, client.Options{SessionTimeout: 9 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, _, err = c.Create(ctx, name, nil, client.CreateOptions{Mode: zk.Ephemeral}); err == nil {
			_, _, _, err = c.GetW(ctx, name)
		}
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, c.SessionID().String())
	}
	sessions, said, err := asJSON[[]held](t, newSessions(), at...)
	if err != nil || said != "" || len(sessions) != 2 {
		t.Fatalf("%+v, %q, %v", sessions, said, err)
	}
	for i, one := range sessions {
		if one.Session != ids[i] || one.TimeoutMs != 9000 || one.Ephemerals != 1 || !strings.HasPrefix(one.Client, "127.0.0.1:") || one.Received == nil {
			t.Errorf("session %d: %+v", i, one)
		}
	}
	ephemerals, _, err := asJSON[[]owned](t, newEphemerals(), at...)
	if want := []owned{{"/a", ids[0]}, {"/b", ids[1]}}; err != nil || !slices.Equal(ephemerals, want) {
		t.Errorf("%v, %v", ephemerals, err)
	}
	watches, _, err := asJSON[[]armed](t, newWatches(), at...)
	if want := []armed{{"/a", ids[0], addr}, {"/b", ids[1], addr}}; err != nil || !slices.Equal(watches, want) {
		t.Errorf("%v, %v", watches, err)
	}
	sums, _, err := asJSON[[]watchSum](t, newWatches(), append(at, "--count")...)
	if err != nil || len(sums) != 1 || sums[0] != (watchSum{addr, 2, 2, 2}) {
		t.Errorf("%v, %v", sums, err)
	}
	locks, _, err := asJSON[[]contender](t, newWhoLocks(), append(at, "/a")...)
	if err != nil || len(locks) != 1 || locks[0].Session != ids[0] || locks[0].Server != addr {
		t.Errorf("%v, %v", locks, err)
	}
}

// quotaOnApache sets a quota that the server enforces, and changes an ACL.
func quotaOnApache(t *testing.T, addr string) {
	t.Helper()
	run := func(want int, line string) string {
		t.Helper()
		out, said, err := play(t, newRoot(), append(strings.Fields(line), "--server", addr)...)
		if exitOf(err) != want {
			t.Errorf("%s: %v\n%s%s", line, err, out, said)
		}
		return out
	}
	run(0, "create -p /app/x")
	run(0, "quota set /app --count-hard 3 --bytes 10")
	run(0, "create /app/y")
	run(1, "create /app/z")
	if out := run(0, "quota get"); !strings.Contains(out, "3       -      3           0      10     -           /app\n") {
		t.Errorf("quota:\n%s", out)
	}
	run(0, "quota rm /app --count-hard")
	run(0, "create /app/z")
	run(0, "quota rm /app")
	run(4, "quota get /app")
	run(0, "acl set -r /app auth::cdrwa --auth digest:bob:secret --version 0")
	run(1, "get /app/z")
	if out := run(0, "acl get /app/z --auth digest:bob:secret"); !strings.HasPrefix(out, "digest:bob:") {
		t.Errorf("acl:\n%s", out)
	}
	if out := run(0, "whoami --auth digest:bob:secret"); !strings.Contains(out, "digest:bob\n") {
		t.Errorf("whoami:\n%s", out)
	}
	run(0, "sync /app")
	run(0, "rm -r /app --auth digest:bob:secret")
	run(4, "config")
}
