package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/client/recipes"
	"github.com/conclave-project/conclave/cmd/conclave/internal/adminport"
	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/internal/admin"
	"github.com/conclave-project/conclave/internal/childtest"
	"github.com/conclave-project/conclave/internal/inprocess"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/zk"
	"github.com/spf13/cobra"
)

// visitor opens a session with one server. It has an ephemeral, a data watch, and a watch of a
// znode that does not exist.
func visitor(t *testing.T, e *inprocess.Ensemble, id int, path string) *client.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, e.Addr(id), client.Options{SessionTimeout: 9 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, _, err = c.Create(ctx, path, nil, client.CreateOptions{Mode: zk.Ephemeral}); err == nil {
		_, _, _, err = c.GetW(ctx, path)
	}
	if err == nil {
		_, _, _, err = c.ExistsW(ctx, path+"-none")
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// asJSON runs a command and decodes its answer.
func asJSON[T any](t *testing.T, c *cobra.Command, args ...string) (answer T, said string, err error) {
	t.Helper()
	out, said, err := play(t, c, append(args, "--json")...)
	if err == nil {
		err = json.Unmarshal([]byte(out), &answer)
	}
	return answer, said, err
}

// sources starts a standalone server that can be asked in two ways, and returns the arguments of a
// command that asks it.
func sources(t *testing.T, allowed ...string) (e *inprocess.Ensemble, args []string) {
	e = startServers(t, 1, 0, func(base *server.Config) { base.FourLetterWords = allowed })
	commands := admin.Commands{Version: "1.2.3", Built: "2026-11-20 22:10 UTC"}
	port := httptest.NewServer(adminport.Handler(e.Server(1), commands, "/commands", adminport.Copies{}))
	t.Cleanup(port.Close)
	_, number, _ := net.SplitHostPort(port.Listener.Addr().String())
	return e, []string{"--server", e.Addr(1), "--admin-port", number}
}

func TestSessionsEphemeralsAndWatchesByBothWays(t *testing.T) {
	for name, allowed := range map[string][]string{"four-letter words": {"*"}, "admin port": {"srvr"}} {
		t.Run(name, func(t *testing.T) {
			e, at := sources(t, allowed...)
			a, b := visitor(t, e, 1, "/a"), visitor(t, e, 1, "/b")
			sessions, said, err := asJSON[[]held](t, newSessions(), at...)
			if err != nil || said != "" || len(sessions) != 2 {
				t.Fatalf("%+v, %q, %v", sessions, said, err)
			}
			for i, c := range []*client.Client{a, b} {
				at := slices.IndexFunc(sessions, func(s held) bool { return s.Session == c.SessionID().String() })
				if at < 0 {
					t.Fatalf("no session %d: %+v", i, sessions)
				}
				if s := sessions[at]; s.TimeoutMs != 9000 || s.Server != e.Addr(1) || s.Ephemerals != 1 ||
					s.Received == nil || *s.Received < 4 || !strings.HasPrefix(s.Client, "127.0.0.1:") || !strings.HasPrefix(s.Since, "20") {
					t.Errorf("session %d: %+v", i, s)
				}
			}
			for _, test := range []struct {
				args []string
				want []owned
			}{
				{nil, []owned{{"/a", a.SessionID().String()}, {"/b", b.SessionID().String()}}},
				{[]string{"/b"}, []owned{{"/b", b.SessionID().String()}}},
				{[]string{"--session", a.SessionID().String()}, []owned{{"/a", a.SessionID().String()}}},
				{[]string{"/c"}, []owned{}},
			} {
				if got, _, err := asJSON[[]owned](t, newEphemerals(), append(test.args, at...)...); err != nil || !slices.Equal(got, test.want) {
					t.Errorf("ephemerals %q: %v, %v", test.args, got, err)
				}
			}
			watches, _, err := asJSON[[]armed](t, newWatches(), append(at, "/a")...)
			id := a.SessionID().String()
			if want := []armed{{"/a", id, e.Addr(1)}, {"/a-none", id, e.Addr(1)}}; err != nil || !slices.Equal(watches, want) {
				t.Errorf("watches: %v, %v", watches, err)
			}
			if of, _, err := asJSON[[]armed](t, newWatches(), append(at, "--session", b.SessionID().String())...); err != nil || len(of) != 2 || of[0].Path != "/b" {
				t.Errorf("watches of one session: %v, %v", of, err)
			}
			sums, _, err := asJSON[[]watchSum](t, newWatches(), append(at, "--count")...)
			if err != nil || len(sums) != 1 || sums[0] != (watchSum{e.Addr(1), 2, 4, 4}) {
				t.Errorf("sums: %v, %v", sums, err)
			}
			if text, _, err := play(t, newSessions(), at...); err != nil || !strings.Contains(text, "  9s ") || !strings.HasPrefix(text, "SESSION ") {
				t.Errorf("%s%v", text, err)
			}
		})
	}
}

// TestWhatIsNotAllowedNamesTheSetting has a server that allows neither the four-letter words nor an
// admin port.
func TestWhatIsNotAllowedNamesTheSetting(t *testing.T) {
	e := startServers(t, 1, 0, func(base *server.Config) { base.FourLetterWords = []string{"srvr"} })
	port := strconv.Itoa(childtest.Port(t)) // nobody listens there
	for name, c := range map[string]*cobra.Command{"dump": newSessions(), "wchp": newWatches()} {
		for _, admin := range []string{port, "0"} {
			var hinted *cli.Error
			_, _, err := play(t, c, "--server", e.Addr(1), "--admin-port", admin)
			if !errors.As(err, &hinted) || hinted.Exit != cli.ExitFailed || !strings.Contains(err.Error(), name+" is not on its 4lw.commands.whitelist") ||
				!strings.Contains(hinted.Hint, "add "+name) || !strings.Contains(hinted.Hint, "admin.enableServer=true") {
				t.Errorf("%s, admin port %s: %v", name, admin, err)
			}
		}
	}
	// If only cons is missing, sessions are listed without addresses.
	e = startServers(t, 1, 0, func(base *server.Config) { base.FourLetterWords = []string{"dump"} })
	a := visitor(t, e, 1, "/a")
	sessions, said, err := asJSON[[]held](t, newSessions(), "--server", e.Addr(1), "--admin-port", "0")
	if err != nil || len(sessions) != 1 || sessions[0].Session != a.SessionID().String() || sessions[0].Client != "" || !strings.Contains(said, "cons is not on its") {
		t.Errorf("%+v, %q, %v", sessions, said, err)
	}
}

func TestSessionsOfAnEnsembleAreFoundFromOneServer(t *testing.T) {
	e := startServers(t, 3, 0, nil)
	want, visitors := map[string]string{}, []*client.Client{}
	for id := 1; id <= 3; id++ {
		c := visitor(t, e, id, fmt.Sprintf("/of-%d", id))
		want[c.SessionID().String()], visitors = e.Addr(id), append(visitors, c)
	}
	for _, c := range visitors { // after that, each server knows all of them
		if err := c.Sync(t.Context(), "/"); err != nil {
			t.Fatal(err)
		}
	}
	for id := 1; id <= 3; id++ {
		sessions, _, err := asJSON[[]held](t, newSessions(), "--server", e.Addr(id))
		found := 0
		for _, s := range sessions {
			if at, ok := want[s.Session]; ok && s.Server == at && s.Ephemerals == 1 {
				found++
			}
		}
		if err != nil || found != 3 {
			t.Errorf("from server %d: %+v, %v", id, sessions, err)
		}
		watches, _, err := asJSON[[]armed](t, newWatches(), "/of-", "--server", e.Addr(id))
		if err != nil || len(watches) != 6 || watches[0].Server != e.Addr(1) {
			t.Errorf("from server %d: %+v, %v", id, watches, err)
		}
	}
	// A learner, asked alone, also lists all sessions and their ephemerals.
	one := e.Leader()%3 + 1
	alone, _, err := asJSON[[]held](t, newSessions(), "--only", "--server", e.Addr(one))
	found := 0
	for _, s := range alone {
		if _, ok := want[s.Session]; ok && s.TimeoutMs == 9000 && s.Ephemerals == 1 {
			found++
		}
	}
	if err != nil || found != 3 {
		t.Errorf("from server %d alone: %+v, %v", one, alone, err)
	}
}

func TestWhoLocksTellsHoldersAndWaiters(t *testing.T) {
	e := startServers(t, 1, 0, nil)
	a, b := visitor(t, e, 1, "/a"), visitor(t, e, 1, "/b")
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	first, err := recipes.NewLock(a, "/lock", recipes.Options{}).Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // readers share the lock
		if _, err := recipes.NewRWLock(a, "/shared", recipes.Options{}).AcquireRead(ctx); err != nil {
			t.Fatal(err)
		}
	}
	waited := make(chan error, 2)
	go func() {
		_, err := recipes.NewLock(b, "/lock", recipes.Options{}).Acquire(ctx)
		waited <- err
	}()
	go func() {
		_, err := recipes.NewRWLock(b, "/shared", recipes.Options{}).AcquireWrite(ctx)
		waited <- err
	}()
	look := func(path string, want int) []contender {
		t.Helper()
		for {
			all, said, err := asJSON[[]contender](t, newWhoLocks(), path, "--server", e.Addr(1), "--admin-port", "0")
			if err != nil || said != "" {
				t.Fatalf("%s: %v, %q, %v", path, all, said, err)
			}
			if len(all) == want {
				return all
			}
			if ctx.Err() != nil {
				t.Fatalf("%s: %v", path, all)
			}
		}
	}
	all := look("/lock", 2)
	if !all[0].Holds || all[1].Holds || all[0].Session != a.SessionID().String() || all[1].Session != b.SessionID().String() ||
		!strings.HasPrefix(all[1].Client, "127.0.0.1:") || all[1].Server != e.Addr(1) || all[0].Since == "" {
		t.Errorf("%+v", all)
	}
	if all := look("/shared", 3); !all[0].Holds || !all[1].Holds || all[2].Holds || all[2].Session != b.SessionID().String() {
		t.Errorf("%+v", all)
	}
	if all := look("/a", 1); !all[0].Holds || all[0].Session != a.SessionID().String() {
		t.Errorf("an ephemeral: %+v", all)
	}
	if err := first.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if all := look("/lock", 1); !all[0].Holds || all[0].Session != b.SessionID().String() {
		t.Errorf("%+v", all)
	}
	if _, _, err := play(t, newWhoLocks(), "/none", "--server", e.Addr(1)); exitOf(err) != cli.ExitNotFound {
		t.Errorf("%v", err)
	}
	cancel()
	<-waited
	<-waited
}

func TestNumbersOfContendersWrapAround(t *testing.T) {
	for name, want := range map[string]int32{"lock-0000000007": 7, "_c_x-latch-2147483647": 1<<31 - 1, "lock--000000001": -1, "lock--2147483648": -1 << 31} {
		if got, ok := sequenceOf(name); !ok || got != want {
			t.Errorf("%s: %d, %t", name, got, ok)
		}
	}
	if _, ok := sequenceOf("lock"); ok {
		t.Error("a name without a number has one")
	}
}

// TestDumpIsReadInAllItsForms reads the dump of a leader with local sessions, of a learner, and of
// Apache's servers without any.
func TestDumpIsReadInAllItsForms(t *testing.T) {
	for text, want := range map[string]string{
		"SessionTracker dump:\nLocal Session Sets (1)/(1):\n1 expire at Sat Nov 21 10:00:00 UTC 2026:\n\t0x1\nGlobal Session Sets (2)/(2):\n" +
			"1 expire at Sat Nov 21 10:00:00 UTC 2026:\n\t0x100a\n1 expire at Sat Nov 21 10:00:01 UTC 2026:\n\t0xff00000000000001\n" +
			"ephemeral nodes dump:\nSessions with Ephemerals (1):\n0x100a:\n\t/dump:\n\t/Session\nConnections dump:\nConnections Sets (1)/(1):\n" +
			"1 expire at Sat Nov 21 10:00:00 UTC 2026:\n\tip: /127.0.0.1:1 sessionId: 0x7\nleft out: 12 ephemerals\n": "map[-72057594037927935:0 1:0 4106:0] map[4106:[/dump: /Session]] 12",
		"SessionTracker dump:\nGlobal Sessions(1):\n0x100a\t30000ms\nephemeral nodes dump:\nSessions with Ephemerals (0):\nConnections dump:\n": "map[4106:30000] map[] 0",
	} {
		d := dumped{sessions: map[zk.SessionID]int64{}, ephemerals: map[zk.SessionID][]string{}}
		d.text(text)
		plain := map[int64]int64{}
		for id, timeout := range d.sessions {
			plain[int64(id)] = timeout
		}
		paths := map[int64][]string{}
		for id, all := range d.ephemerals {
			paths[int64(id)] = all
		}
		if got := fmt.Sprint(plain, " ", paths, " ", d.left); got != want {
			t.Errorf("%s\nis read as %s", text, got)
		}
	}
}
