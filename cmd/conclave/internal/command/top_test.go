package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/zookeeper"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/zk"
)

// lookOf returns a look at some servers and one client after the given number of seconds.
func lookOf(seconds int, received int64, servers ...standing) *look {
	l := &look{at: time.UnixMilli(1_700_000_000_000 + 1000*int64(seconds)), servers: servers, clients: connected{}}
	if received >= 0 {
		l.clients[7] = held{Session: "0x7", Client: "10.0.0.7:1", Server: "a:1", Received: &received, last: "GETD"}
	}
	return l
}

func TestTopTellsWhatWasDoneBetweenTwoLooks(t *testing.T) {
	before := lookOf(0, 10,
		standing{Server: "a:1", Mode: "leader", Received: "100", Mntr: map[string]string{
			"zk_cnt_readlatency": "50", "zk_cnt_updatelatency": "10", "zk_read_micros": "1000:50", "zk_update_micros": "8000:10"}},
		standing{Server: "b:1", Mode: "follower", Received: "5000"})
	now := lookOf(4, 30,
		standing{Server: "a:1", Mode: "leader", Sessions: "12", Received: "500", Mntr: map[string]string{"zk_watch_count": "9",
			"zk_cnt_readlatency": "250", "zk_cnt_updatelatency": "12", "zk_read_micros": "100:198,1000:50,50000:2", "zk_update_micros": "8000:10,2000:2"}},
		standing{Server: "b:1", Mode: "follower", Received: "20"}, // it was started again
		standing{Server: "c:1", Mode: "follower", Received: "20", Mntr: map[string]string{
			"zk_cnt_readlatency": "3", "zk_p50_readlatency": "1.0", "zk_p99_readlatency": "7.5", "zk_cnt_updatelatency": "0", "zk_p50_updatelatency": "0.0", "zk_p99_updatelatency": "0.0"}},
		standing{Server: "d:1", Error: "refused"})
	fresh := int64(8)
	now.clients[8] = held{Session: "0x8", Client: "10.0.0.8:1", Server: "a:1", Received: &fresh}
	p := newPage(before, now, &elected{problem: "elections: none"})
	got, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"time":"2023-11-14T22:13:24.000Z","seconds":4,"sessions":12,"servers":[` +
		`{"server":"a:1","mode":"leader","sessions":12,"received":500,"watches":9,"requestsPerSecond":100,"readsPerSecond":50,"writesPerSecond":0.5,` +
		`"readMs":{"p50":0.1035,"p99":0.1035},"writeMs":{"p50":1.9195,"p99":1.9195}},` +
		`{"server":"b:1","mode":"follower","received":20},` +
		`{"server":"c:1","mode":"follower","received":20,"readMs":{"p50":1,"p99":7.5},"sinceStart":true},` +
		`{"server":"d:1","error":"refused"}],"elections":[],"others":[],"clients":[` +
		`{"session":"0x7","client":"10.0.0.7:1","server":"a:1","requestsPerSecond":5,"received":30,"lastOp":"GETD"},` +
		`{"session":"0x8","client":"10.0.0.8:1","server":"a:1","requestsPerSecond":2,"received":8}],"paths":[],"limits":[],"problems":["elections: none"]}`
	if string(got) != want {
		t.Errorf("%s, want\n%s", got, want)
	}
	if p.sort(3); p.Clients[0].Session != "0x7" {
		t.Errorf("by all requests: %+v", p.Clients)
	}
	var text strings.Builder
	if err := p.text(&text); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"SERVER  ID  ROLE       EPOCH  ZXID  LAG  REQ/S  READS/S  WRITES/S  READ MS    WRITE MS  CLIENTS  WATCHES  QUEUED\n",
		"a:1     -   leader     -      -     -    100    50       0.50      0.10/0.10  1.9/1.9   -        9        -\n",
		"c:1     -   follower   -      -     -    -      -        -         1.0/7.5*   -         -        -        -\n",
		"d:1     -   no answer  -", "\n3 of 4 servers serve, 12 sessions; * since its start\n",
		"0x7      10.0.0.7:1  a:1     5.0    30        -       -   GETD\n",
	} {
		if !strings.Contains(text.String(), line) {
			t.Errorf("no line %q in\n%s", line, text.String())
		}
	}
}

// Each server counts the reads that it answers, and every write. A counter that began again, or was
// not reported before, adds no load.
func TestTopTellsPathsAndLimits(t *testing.T) {
	mntr := func(pairs ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			m["zk_"+pairs[i]] = pairs[i+1]
		}
		return m
	}
	before := lookOf(0, -1,
		standing{Server: "a:1", Mntr: mntr("cnt_orders_read_per_namespace", "100", "sum_orders_read_per_namespace", "1000",
			"cnt_orders_write_per_namespace", "50", "sum_orders_write_per_namespace", "500", "watches_rejected", "7", "throttled_ops", "9", "cnt_a_read_per_namespace_read_per_namespace", "0")},
		standing{Server: "b:1", Mntr: mntr("cnt_orders_write_per_namespace", "40", "sum_orders_write_per_namespace", "400",
			"cnt_stock_read_per_namespace", "0", "sum_stock_read_per_namespace", "0", "cnt_/_write_per_namespace", "0")},
		standing{Server: "c:1"})
	now := lookOf(10, -1,
		standing{Server: "a:1", Mntr: mntr("cnt_orders_read_per_namespace", "300", "sum_orders_read_per_namespace", "3000",
			"cnt_orders_write_per_namespace", "150", "sum_orders_write_per_namespace", "2500", "watches_rejected", "10", "throttled_ops", "2",
			"cnt_a_read_per_namespace_read_per_namespace", "5")},
		standing{Server: "b:1", Mntr: mntr("cnt_orders_write_per_namespace", "138", "sum_orders_write_per_namespace", "2360",
			"cnt_stock_read_per_namespace", "1000", "sum_stock_read_per_namespace", "9000", "cnt_/_write_per_namespace", "10",
			"cnt_old_read_per_namespace", "1000000")},
		standing{Server: "c:1", Mntr: mntr("cnt_orders_read_per_namespace", "1000", "watches_rejected", "99")})
	p := newPage(before, now, &elected{})
	got, err := json.Marshal([]any{p.Paths, p.Limits})
	const want = `[[{"path":"/stock","readsPerSecond":100,"writesPerSecond":0,"bytesPerSecond":900},` +
		`{"path":"/orders","readsPerSecond":20,"writesPerSecond":10,"bytesPerSecond":400},` +
		`{"path":"/","readsPerSecond":0,"writesPerSecond":1,"bytesPerSecond":0},` +
		`{"path":"/a_read_per_namespace","readsPerSecond":0.5,"writesPerSecond":0,"bytesPerSecond":0}],` +
		`[{"server":"a:1","limit":"watches_rejected","times":3}]]`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v, want\n%s", got, err, want)
	}
	var text strings.Builder
	if err := p.text(&text); err != nil || !strings.Contains(text.String(), "limit hit on a:1: watches_rejected +3\n") ||
		!strings.Contains(text.String(), "/stock                 100      0         900\n") {
		t.Errorf("%v\n%s", err, text.String())
	}
}

func TestTopBeforeItsSecondLookTellsNoRates(t *testing.T) {
	p := newPage(nil, lookOf(0, 10, standing{Server: "a:1", Received: "100", Mntr: map[string]string{"zk_cnt_readlatency": "50", "zk_read_micros": "8:1"}}), &elected{})
	if s := p.Servers[0]; s.Requests != nil || s.Reads != nil || s.ReadTimes != nil || p.Clients[0].Requests != nil {
		t.Errorf("%+v, %+v", s, p.Clients)
	}
}

func TestTopAsksServersThatHaveLeftNoMore(t *testing.T) {
	o := &overseer{named: []string{"a:1"}}
	stays := []member{{"1", "a:1"}, {"2", "b:1"}}
	o.remember([]standing{{Server: "a:1", membership: stays}, {Server: "b:1"}, {Server: "c:1", Error: "refused"}}, true)
	if !slices.Equal(o.found, []string{"b:1"}) {
		t.Errorf("found: %q", o.found)
	}
	silent := []standing{{Server: "a:1", Error: "refused"}, {Server: "b:1"}}
	o.ids["a:1"] = "1"
	o.remember(silent, false) // no server reports it
	if !slices.Equal(o.found, []string{"b:1"}) || silent[0].ID != "1" {
		t.Errorf("found: %q, %+v", o.found, silent)
	}
}

// leadIn leads an election in a store until the test ends.
func leadIn(t *testing.T, servers, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	b, err := zookeeper.New(servers, zookeeper.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	e, err := election.New(b, name, election.Options{ID: "anna"})
	if err != nil {
		t.Fatal(err)
	}
	leads, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	began := make(chan struct{})
	go func() {
		ended <- e.Run(leads, func(ctx context.Context, _ election.Leadership) error {
			close(began)
			<-ctx.Done()
			return nil
		})
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	select {
	case <-began:
	case <-ctx.Done():
		t.Fatal("nobody leads")
	}
}

// TestTopOfAnEnsemble finds all servers from one, with what a client does in the meantime, by
// four-letter words and on the admin port.
func TestTopOfAnEnsemble(t *testing.T) {
	e := startServers(t, 3, 0, nil)
	leadIn(t, strings.Join(e.Addrs(), ","), "billing/nightly")
	busyClient(t, e.Addr(2))
	const candidate = "/_c_3f1c9a52-6d0c-4b7e-9f31-0a1b2c3d4e5f-latch-0000000004"
	visitorAt(t, e.Addr(3), candidate)
	got, said, err := asJSON[page](t, newTop(), "--server", e.Addr(1), "--interval", "1s", "--admin-port", "0")
	if err != nil || said != "" || len(got.Servers) != 3 || got.Sessions == nil || got.Seconds < 1 {
		t.Fatalf("%+v, %q, %v", got, said, err)
	}
	for i, s := range got.Servers {
		if want := map[bool]string{true: "leader", false: "follower"}[i+1 == e.Leader()]; s.Mode != want || *s.ID != int64(i+1) || s.Server != e.Addr(i+1) {
			t.Errorf("server %d: %+v", i+1, s)
		}
	}
	two := got.Servers[1]
	if two.Writes == nil || *two.Writes < 1 || *two.Reads < 1 || *two.Requests < *two.Reads || two.WriteTimes == nil || two.ReadTimes.P99 < two.ReadTimes.P50 || two.SinceStart {
		t.Errorf("the server of a busy client: %+v", two)
	}
	if c := got.Clients[0]; c.Server != e.Addr(2) || c.Requests == nil || *c.Requests < 2 || c.Last == "" {
		t.Errorf("the busiest client: %+v", c)
	}
	if len(got.Elections) != 1 || got.Elections[0].Leader != "anna" || got.Elections[0].Token == 0 || got.Elections[0].Election != "billing/nightly" {
		t.Errorf("elections: %+v", got.Elections)
	}
	if len(got.Others) != 1 || "/"+got.Others[0].Leader != candidate || got.Others[0].Library != "Curator" {
		t.Errorf("elections of others: %+v", got.Others)
	}
	if len(got.Paths) == 0 || got.Paths[0].Path != "/busy" || got.Paths[0].Reads < 1 || got.Paths[0].Writes < 1 || got.Paths[0].Bytes < 1 {
		t.Errorf("paths: %+v", got.Paths)
	}
	text, _, err := play(t, newTop(), "--server", e.Addr(1), "--interval", "500ms", "--clients", "1", "--elections", "0")
	if err != nil || strings.Contains(text, "nightly") || strings.Count(text, e.Addr(2)) != 2 || !strings.Contains(text, "3 of 3 servers serve") {
		t.Errorf("%v\n%s", err, text)
	}
}

// busyClient reads and writes until the test ends.
func busyClient(t *testing.T, addr string) {
	t.Helper()
	c := visitorAt(t, addr, "/busy")
	ctx, stop := context.WithCancel(t.Context())
	began, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for once := true; ctx.Err() == nil; once = false {
			_, _ = c.Set(ctx, "/busy", []byte("x"), -1)
			_, _, _ = c.Get(ctx, "/busy")
			if once {
				close(began)
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	<-began // what the first look does not know has no figure in the second
}

// visitorAt returns a client that has created an ephemeral.
func visitorAt(t *testing.T, addr, path string) *client.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, addr, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, _, err := c.Create(ctx, path, nil, client.CreateOptions{Mode: zk.Ephemeral}); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestTopByTheAdminPort has a server that allows only srvr.
func TestTopByTheAdminPort(t *testing.T) {
	e, at := sources(t, "srvr")
	busyClient(t, e.Addr(1))
	got, said, err := asJSON[page](t, newTop(), append(at, "--interval", "1s", "--elections", "0")...)
	if err != nil || said != "" || len(got.Servers) != 1 || len(got.Clients) != 1 {
		t.Fatalf("%+v, %q, %v", got, said, err)
	}
	if s := got.Servers[0]; s.Writes == nil || *s.Writes < 1 || s.WriteTimes == nil || s.Watches == nil || s.Mode != "standalone" {
		t.Errorf("%+v", s)
	}
	// With neither, there are requests, and the reason why there is nothing else.
	at[len(at)-1] = "0"
	got, said, err = asJSON[page](t, newTop(), append(at, "--interval", "500ms", "--elections", "0")...)
	if err != nil || said != "" || len(got.Problems) != 1 || !strings.Contains(got.Problems[0], "cons is not on its") || got.Servers[0].Requests == nil || got.Servers[0].Writes != nil {
		t.Errorf("%+v, %q, %v", got, said, err)
	}
}

func TestTopOfNobodyEndsWithTheCodeOfNoServer(t *testing.T) {
	e := startServers(t, 1, 0, func(base *server.Config) { base.FourLetterWords = []string{"srvr"} })
	addr := e.Addr(1)
	e.Close()
	_, _, err := play(t, newTop(), "--server", addr, "--once")
	if exitOf(err) != cli.ExitNoServer {
		t.Errorf("%v", err)
	}
	for _, wrong := range []string{"--interval 1ms", "--sort name", "--clients -1", "--elections -1"} {
		var hinted *cli.Error
		if _, _, err := play(t, newTop(), append(strings.Fields(wrong), "--server", addr)...); !errors.As(err, &hinted) || hinted.Exit != cli.ExitUsage || hinted.Hint == "" {
			t.Errorf("%s: %v", wrong, err)
		}
	}
	if got := fmt.Sprint(clientOrderNames()); got != "requests, queued, latency, total" {
		t.Error(got)
	}
}
