package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/cmd/conclave/internal/dashboard"
	"github.com/conclave-project/conclave/internal/admin"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/childtest"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/zk"
)

func TestElectionsOfOtherLibrariesAreKnownByTheirShape(t *testing.T) {
	const id, hex = "_c_0d5cd3f1-9f5b-4ac6-a0e5-7b0a2d0a3c11-", "0123456789abcdef0123456789abcdef"
	got := foreignElections(map[zk.SessionID][]string{
		1: {"/latches/a/" + id + "latch-0000000007", "/locks/a/" + id + "lock-2147483647", "/plain/n-0000000001"},
		2: {"/latches/a/" + strings.Replace(id, "0d5c", "0d5d", 1) + "latch-0000000003", "/kazoo/" + hex + "__lock__0000000001"},
		3: {"/locks/a/" + strings.Replace(id, "0d5c", "0d5e", 1) + "lock--2147483648", "/kazoo/" + hex[1:] + "f__lock__0000000000", "/kazoo/" + hex + "__rlock__0000000000"},
		4: {"/conclave/elections/x/_c_0123456789abcdef-p0-latch-0000000001"},
	})
	var said []string
	for _, f := range got {
		said = append(said, fmt.Sprint(f.Path, " ", f.Library, " ", f.Kind, " ", f.Session, " ", len(f.Waiting)))
	}
	// The counter of a directory wraps around: what was created after that waits.
	want := []string{"/kazoo kazoo lock 0x3 1", "/latches/a Curator latch 0x2 1", "/locks/a Curator lock 0x1 1"}
	if !slices.Equal(said, want) {
		t.Errorf("%q\nwant %q", said, want)
	}
	if none := foreignElections(nil); none == nil || len(none) != 0 {
		t.Errorf("of no ephemerals: %v", none)
	}
}

// showing returns the source of a dashboard over servers of this process.
func showing(t *testing.T, servers []string, log dashLog) *dashSource {
	t.Helper()
	source := processSource(servers, nil, nil, log)
	t.Cleanup(source.close)
	return source
}

// as returns an answer as a value of its type.
func as[T any](t *testing.T, value any, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	typed, ok := value.(T)
	if !ok {
		t.Fatalf("%T", value)
	}
	return typed
}

// TestDashboardShowsAnEnsemble asks for everything that the page asks for, of three servers and of
// what clients do there.
func TestDashboardShowsAnEnsemble(t *testing.T) {
	e := startServers(t, 3, 0, nil)
	ctx := awaittest.Within(t)
	leadIn(t, strings.Join(e.Addrs(), ","), "billing/nightly")
	busyClient(t, e.Addr(2))
	d := showing(t, []string{e.Addr(1)}, nil) // it finds the others
	awaittest.Until(t, "writes are seen", func() bool {
		value, err := d.Look(ctx)
		p := as[*dashPage](t, value, err)
		return len(p.Servers) == 3 && slices.ContainsFunc(p.Servers, func(s load) bool { return s.Writes != nil && *s.Writes > 0 })
	})
	value, err := d.Elections(ctx)
	if found := as[*dashElected](t, value, err); len(found.Elections) != 1 || found.Elections[0].Leader != "anna" || len(found.Others) != 0 || found.Problem != "" {
		t.Errorf("%+v", found)
	}
	value, err = d.History(ctx, "billing/nightly")
	if found := as[[]past](t, value, err); len(found) != 1 || found[0].Leader != "anna" {
		t.Errorf("%+v", found)
	}
	value, err = d.Sessions(ctx)
	if found := as[dashSessions](t, value, err); len(found.Sessions) < 2 || !slices.ContainsFunc(found.Sessions, func(h held) bool { return h.Server == e.Addr(2) }) {
		t.Errorf("%+v", found)
	}
	value, err = d.Ask(ctx, "billing/nightly", "")
	if found := as[asked](t, value, err); found.Was != "anna" || found.WasToken == 0 {
		t.Errorf("%+v", found)
	}
	for name, call := range map[string]func() (any, error){
		"history": func() (any, error) { return d.History(ctx, "../x") },
		"ask":     func() (any, error) { return d.Ask(ctx, "none", "") },
		"log":     func() (any, error) { return d.Log(ctx, dashboard.LogQuery{}) },
		"znode":   func() (any, error) { return d.Znode(ctx, "/none") },
	} {
		if value, err := call(); err == nil {
			t.Errorf("%s: %v", name, value)
		} else if _, _, exit := cli.Describe(err); exit != cli.ExitNotFound && exit != cli.ExitUsage {
			t.Errorf("%s: %v, exit code %d", name, err, exit)
		}
	}
}

// TestDashboardChangesTheTree also checks that the changes are logged.
func TestDashboardChangesTheTree(t *testing.T) {
	e := startServers(t, 1, 0, nil)
	ctx := awaittest.Within(t)
	log := func() *server.Server { return e.Server(1) }
	d := showing(t, e.Addrs(), log)
	followed := make(chan dashNews, 10_000)
	following, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- d.Follow(following, func(v any) { followed <- v.(dashNews) }) }()
	text, zero := "x", int32(0)
	write := func(w dashboard.Write) error { _, err := d.Write(ctx, w); return err }
	awaittest.Until(t, "the log is followed", func() bool {
		if err := write(dashboard.Write{Do: "create", Path: "/begin-", Mode: "sequential"}); err != nil {
			t.Fatal(err)
		}
		return len(followed) > 0
	})
	for _, w := range []dashboard.Write{
		{Do: "create", Path: "/app", Data: &text},
		{Do: "create", Path: "/app/n-", Mode: "sequential"},
		{Do: "create", Path: "/app/c", Mode: "container"},
		{Do: "set", Path: "/app", Base64: "/w==", Version: &zero},
		{Do: "delete", Path: "/app/c"},
	} {
		if err := write(w); err != nil {
			t.Errorf("%+v: %v", w, err)
		}
	}
	for _, w := range []dashboard.Write{
		{}, {Do: "erase", Path: "/app"}, {Do: "create", Path: "/a", Mode: "ephemeral"}, {Do: "set", Path: "/app", Mode: "sequential"},
		{Do: "create", Path: "/a", Version: &zero}, {Do: "set", Path: "/app", Data: &text, Base64: "eA=="}, {Do: "delete", Path: "/app", Data: &text},
		{Do: "set", Path: "/app", Base64: "?"},
	} {
		if _, _, exit := cli.Describe(write(w)); exit != cli.ExitUsage {
			t.Errorf("%+v: exit code %d", w, exit)
		}
	}
	if err := write(dashboard.Write{Do: "set", Path: "/app", Data: &text, Version: &zero}); !errors.Is(err, zk.ErrBadVersion) {
		t.Errorf("an old version: %v", err)
	}
	value, err := d.Znode(ctx, "/app")
	if found := as[dashZnode](t, value, err); found.Base64 != "/w==" || found.Text != nil || found.Stat.Version != 1 || !slices.Equal(found.ACL, []string{"world:anyone:cdrwa"}) {
		t.Errorf("%+v", found)
	}
	value, err = d.Children(ctx, "/app", "", 10)
	if found := as[*dashChildren](t, value, err); len(found.Children) != 1 || found.Children[0].Name != "n-0000000000" || !found.Sorted || found.Total != 1 || found.Next != "" {
		t.Errorf("%+v", found)
	}
	var ops []string
	for len(ops) < 5 {
		select {
		case news := <-followed:
			for _, one := range news.Transactions {
				if strings.HasPrefix(one.Path, "/app") {
					ops = append(ops, one.Op+" "+one.Path)
				}
			}
		case <-ctx.Done():
			t.Fatalf("only %q were told", ops)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if want := "create2 /app, create2 /app/n-0000000000, createContainer /app/c, setData /app, delete /app/c"; strings.Join(ops, ", ") != want {
		t.Errorf("%q, want %q", ops, want)
	}
	value, err = d.Log(ctx, dashboard.LogQuery{Path: "/app/c", Limit: 5})
	if found := as[dashTxns](t, value, err); len(found.Transactions) != 2 || found.Transactions[1].Op != "delete" || !found.Whole || found.From == "" {
		t.Errorf("%+v", found)
	}
	value, err = d.Log(ctx, dashboard.LogQuery{Op: "setData", Limit: 1})
	if found := as[dashTxns](t, value, err); len(found.Transactions) != 1 || found.Transactions[0].Path != "/app" || found.Transactions[0].Data != nil {
		t.Errorf("%+v", found)
	}
}

// TestDashboardListsALargeDirectoryInPages checks that each name is listed once.
func TestDashboardListsALargeDirectoryInPages(t *testing.T) {
	e := startServers(t, 1, 0, nil)
	ctx := awaittest.Within(t)
	c := visitorAt(t, e.Addr(1), "/busy")
	defer c.Close()
	for i := range 25 {
		if _, _, err := c.CreateAll(ctx, fmt.Sprintf("/many/%02d", i), nil, client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, unpaged := range []bool{false, true} {
		d := showing(t, e.Addrs(), nil)
		d.unpaged = unpaged
		var names []string
		for cursor := ""; ; {
			value, err := d.Children(ctx, "/many", cursor, 10)
			found := as[*dashChildren](t, value, err)
			for _, child := range found.Children {
				names = append(names, child.Name)
			}
			if cursor = found.Next; cursor == "" {
				break
			}
		}
		if !unpaged {
			slices.Sort(names) // the pages are in the server's own order
		}
		if len(names) != 25 || !slices.IsSorted(names) || names[24] != "24" {
			t.Errorf("unpaged %v: %q", unpaged, names)
		}
		if _, err := d.Children(ctx, "/many", "?", 10); (err == nil) != unpaged { // without pages, a cursor is a name
			t.Errorf("unpaged %v: a bad cursor: %v", unpaged, err)
		}
	}
}

// TestDashboardOfAServerNeedsNoWhitelist checks that the server tells its own dashboard everything,
// though strangers get only srvr.
func TestDashboardOfAServerNeedsNoWhitelist(t *testing.T) {
	e := startServers(t, 1, 0, func(c *server.Config) { c.FourLetterWords = nil })
	source := ownDashboard(e.Server(1), admin.Commands{}, nil)
	url, end, err := serveDashboard(t.Context(), "127.0.0.1:0", source, false, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	fetch := func(path string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(awaittest.Within(t), "GET", url+"api/v1/"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Errorf("%s: %s, %v\n%s", path, answer.Status, err, text)
		}
		return string(text)
	}
	for path, want := range map[string]string{"look": `"watches":0`, "sessions": `"sessions":[`, "about": `"log":true`, "children": `"zookeeper"`, "log": `"whole":true`, "elections": `"elections":[]`} {
		if text := fetch(path); !strings.Contains(text, want) {
			t.Errorf("%s: %s", path, text)
		}
	}
	if _, _, err := serveDashboard(t.Context(), "0.0.0.0:0", source, false, nil); err == nil {
		t.Error("it is served to everybody")
	}
	if url, _, err := serveDashboard(t.Context(), "", source, false, nil); url != "" || err != nil {
		t.Errorf("without an address: %q, %v", url, err)
	}
}

// TestDashboardListsWatchesOneAtATime matters because making a list takes many times its size in
// memory. A list that was given up is still made to its end before the next one is made.
func TestDashboardListsWatchesOneAtATime(t *testing.T) {
	e := startServers(t, 1, 0, func(c *server.Config) { c.FourLetterWords = nil })
	source := ownDashboard(e.Server(1), admin.Commands{}, nil)
	defer source.close()
	if _, err := source.Watches(awaittest.Within(t), "/"); err != nil {
		t.Fatal(err)
	}
	refused := func(why string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if _, err := source.Watches(ctx, "/"); err == nil {
			t.Error("they are listed though " + why)
		} else if _, _, exit := cli.Describe(err); exit != cli.ExitNoServer {
			t.Errorf("%v: exit %d", err, exit)
		}
	}
	_, release := e.Server(1).Report("wchp", func() string { return "" })
	refused("the server has another report")
	release()
	source.listing <- struct{}{}
	refused("others have theirs listed")
	<-source.listing
	if _, err := source.Watches(awaittest.Within(t), "/"); err != nil {
		t.Error(err)
	}
}

// TestServersDashboardIsNobody matters because the server's environment may name the credentials
// that an operator's commands use, and then anybody who reaches the page would be that operator.
func TestServersDashboardIsNobody(t *testing.T) {
	credentials := filepath.Join(t.TempDir(), "auth")
	if err := os.WriteFile(credentials, []byte("digest:super:secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CONCLAVE_AUTH_FILE", credentials)
	t.Setenv("CONCLAVE_JAAS", credentials+".none")
	own := storeFlags{store: "zk://127.0.0.1:1"} // as the dashboard opens the store of elections
	if _, target, err := own.named(); err != nil || target.auth != nil || target.proof != nil {
		t.Errorf("%d credentials, %v", len(target.auth), err)
	}
	var flags authFlags // of a command
	flags.add(&cobra.Command{}, "")
	for range 2 {
		if all, err := flags.credentials(); len(all) != 1 || err != nil {
			t.Errorf("%d credentials, %v", len(all), err)
		}
		_ = os.Remove(credentials) // it is read once: it may be a pipe
	}
}

// TestSearchesOfTheLogWaitForEachOther covers a bug: the second search was refused, although a
// browser that asks again gives up its first search.
func TestSearchesOfTheLogWaitForEachOther(t *testing.T) {
	e := startServers(t, 1, 0, nil)
	d := showing(t, e.Addrs(), func() *server.Server { return e.Server(1) })
	d.search <- struct{}{} // another search is under way
	given, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Log(given, dashboard.LogQuery{Limit: 1}); err == nil {
		t.Error("it did not wait")
	}
	answered := make(chan error, 1)
	go func() {
		_, err := d.Log(awaittest.Within(t), dashboard.LogQuery{Limit: 1})
		answered <- err
	}()
	<-d.search
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// TestWatchesOfOtherNamesAreNotShown checks that watches of /ab do not count as below /a.
func TestWatchesOfOtherNamesAreNotShown(t *testing.T) {
	e := startServers(t, 1, 0, nil)
	ctx := awaittest.Within(t)
	c := visitorAt(t, e.Addr(1), "/busy")
	defer c.Close()
	for _, path := range []string{"/a", "/ab", "/a/b"} {
		if _, _, err := c.CreateAll(ctx, path, nil, client.CreateOptions{}); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			t.Fatal(err)
		}
		if _, _, _, err := c.GetW(ctx, path); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{"/a": "/a /a/b", "/": "/a /a/b /ab", "/a/": "/a/b"} {
		value, err := showing(t, e.Addrs(), nil).Watches(ctx, path)
		paths := []string{}
		for _, w := range as[dashArmed](t, value, err).Watches {
			paths = append(paths, w.Path)
		}
		paths = slices.Compact(paths)
		if strings.Join(paths, " ") != want {
			t.Errorf("%s: %q", path, paths)
		}
	}
}

// TestLookThatWasGivenUpShowsNobodySilentServers covers a bug: such a look was kept, and shown to
// the next client that asked.
func TestLookThatWasGivenUpShowsNobodySilentServers(t *testing.T) {
	e := startServers(t, 1, 0, nil)
	d := showing(t, e.Addrs(), nil)
	given, cancel := context.WithCancel(t.Context())
	cancel()
	for name, look := range map[string]func(context.Context) (any, error){"look": d.Look, "elections": d.Elections} {
		if value, err := look(given); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %+v, %v", name, value, err)
		}
	}
	ctx := awaittest.Within(t)
	value, err := d.Look(ctx)
	if found := as[*dashPage](t, value, err); len(found.Servers) != 1 || found.Servers[0].Error != "" {
		t.Errorf("%+v", found)
	}
	value, err = d.Elections(ctx)
	if found := as[*dashElected](t, value, err); found.Problem != "" {
		t.Errorf("%+v", found)
	}
}

// TestDashboardWithoutAServerSaysSo covers a bug: nothing listened at the address, and the hint
// said that something did.
func TestDashboardWithoutAServerSaysSo(t *testing.T) {
	gone := net.JoinHostPort("127.0.0.1", strconv.Itoa(childtest.Port(t)))
	_, err := showing(t, []string{gone}, nil).Children(awaittest.Within(t), "/", "", 1)
	if _, hint, exit := cli.Describe(err); exit != cli.ExitNoServer || hint != cli.NoServerHint {
		t.Errorf("%v: exit code %d, hint %q", err, exit, hint)
	}
}
