package metrics

import (
	"bufio"
	"context"
	flags "flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/inprocess"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/tally"
	_ "github.com/conclave-project/conclave/internal/tracetest" // has the flag -rewrite
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// TestEveryNameOfZooKeeperHasARow compares the table with the names in Apache's sources:
// metrics-M1.
func TestEveryNameOfZooKeeperHasARow(t *testing.T) {
	file, err := os.Open("testdata/apache.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	kinds, rows := map[string]kind{}, map[string]bool{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if f := strings.Fields(lines.Text()); len(f) == 2 {
			kinds[f[0]] = kind(strings.ReplaceAll(f[1], "-", " "))
		}
	}
	if len(kinds) != 160 {
		t.Errorf("testdata/apache.txt has %d names", len(kinds))
	}
	for _, r := range names {
		if rows[r.name] {
			t.Errorf("%s stands twice", r.name)
		}
		rows[r.name] = true
		if kinds[r.name] != r.kind {
			t.Errorf("%s is a %s, in ZooKeeper a %q", r.name, r.kind, kinds[r.name])
		}
		if r.text == "" || r.spread != nil && (r.unit == 0 || r.value != nil) {
			t.Errorf("%s: %+v", r.name, r)
		}
	}
	for name := range kinds {
		if !rows[name] {
			t.Errorf("%s has no row", name)
		}
	}
}

// TestThePageIsThatOfTheTable compares docs/metrics.md with the code; -rewrite writes it
// again.
func TestThePageIsThatOfTheTable(t *testing.T) {
	const page = "../../../../docs/metrics.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, _, found := strings.Cut(string(text), "<!-- made from the code, by go test -rewrite -->\n")
	if !found {
		t.Fatal("the page has lost its mark")
	}
	var b strings.Builder
	b.WriteString(head + "<!-- made from the code, by go test -rewrite -->\n\n## Ours\n\n| name | labels | what it tells |\n|---|---|---|\n")
	for _, n := range ownNames {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", n.name, strings.TrimSpace(n.labels), n.text)
	}
	b.WriteString("\n## ZooKeeper's that are served\n\n| name | kind | what it tells |\n|---|---|---|\n")
	var without []string
	reasons := map[string][]string{}
	for _, r := range names {
		if r.served() {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.name, r.kind, r.text)
			continue
		}
		if reasons[r.text] == nil {
			without = append(without, r.text)
		}
		reasons[r.text] = append(reasons[r.text], "`"+r.name+"`")
	}
	b.WriteString("\n## ZooKeeper's that are not\n\n| why | names |\n|---|---|\n")
	for _, why := range without {
		fmt.Fprintf(&b, "| %s | %s |\n", why, strings.Join(reasons[why], " "))
	}
	switch {
	case b.String() == string(text):
	case flags.Lookup("rewrite").Value.String() == "true":
		if err := os.WriteFile(page, []byte(b.String()), 0o644); err != nil {
			t.Error(err)
		}
	default:
		t.Errorf("%s is not that of the table: go test ./internal/metrics -rewrite writes it again", page)
	}
}

func TestAQuantileIsWithinAQuarterOfTheTruth(t *testing.T) {
	for _, v := range []int64{0, 1, 3, 4, 5, 7, 8, 1000, 123456789, 1 << 39} {
		d := single(v)
		if got := d.Quantile(0.5); math.Abs(got-float64(v)) > float64(v)/8+0.5 {
			t.Errorf("of %d alone the median is %v", v, got)
		}
	}
	var d tally.Distribution
	if !math.IsNaN(d.Quantile(0.5)) {
		t.Error("nothing has a median")
	}
	for v := range int64(1000) {
		d.Count, d.Sum = d.Count+1, d.Sum+v
		d.Buckets[tally.BucketOf(v)]++
	}
	for _, q := range []float64{0.5, 0.9, 0.99} {
		if got := d.Quantile(q); math.Abs(got-1000*q) > 125*q {
			t.Errorf("quantile %v is %v", q, got)
		}
	}
}

func TestQuantilesForgetWhatIsOlderThanTenMinutes(t *testing.T) {
	var w window
	now := time.Unix(0, 0)
	slow := single(1 << 20)
	if got := w.since(slow, now); got.Count != 1 {
		t.Errorf("%+v", got.Count)
	}
	now = now.Add(windowTime - time.Second)
	if got := w.since(slow, now); got.Count != 1 {
		t.Error("forgotten too early")
	}
	now = now.Add(2 * time.Second)
	if got := w.since(slow, now); got.Count != 0 || slow.Count != 1 {
		t.Errorf("%d are remembered", got.Count)
	}
	for range 10000 {
		now = now.Add(time.Second)
		w.since(slow, now)
	}
	if len(w.seen) > snapshotsMax+2 {
		t.Errorf("%d scrapes are kept", len(w.seen))
	}
}

func TestHistogramCountsWhatIsBelowEachBucket(t *testing.T) {
	var d tally.Distribution
	for _, v := range []int64{1, 127, 128, 1 << 20, 1 << 35} {
		d.Count, d.Sum = d.Count+1, d.Sum+v
		d.Buckets[tally.BucketOf(v)]++
	}
	want := map[string]bool{
		`x_bucket{le="0.000128"} 2`: true, `x_bucket{le="0.000256"} 3`: true, `x_bucket{le="1.048576"} 3`: true,
		`x_bucket{le="2.097152"} 4`: true, `x_bucket{le="67.108864"} 4`: true, `x_bucket{le="+Inf"} 5`: true,
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(fixed{histogram(prometheus.NewDesc("x", "x", nil, nil), &d)})
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	text := answer.Body.String()
	for line := range strings.Lines(text) {
		delete(want, strings.TrimSpace(line))
	}
	if len(want) > 0 {
		t.Errorf("missing %v in\n%s", want, text)
	}
}

type fixed struct{ prometheus.Metric }

func (f fixed) Describe(chan<- *prometheus.Desc)     {}
func (f fixed) Collect(out chan<- prometheus.Metric) { out <- f.Metric }

// scrape returns what the port answers, and its lines by name and labels.
func scrape(t *testing.T, e *httptest.Server) (int, string, map[string]string) {
	t.Helper()
	response, err := http.Get(e.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for line := range strings.Lines(string(body)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && key != "#" {
			values[key] = value
		}
	}
	return response.StatusCode, string(body), values
}

// TestAScrapeTellsOfAnEnsembleUnderTheNamesOfZooKeeper looks at the leader and a follower
// of three servers after a few requests.
func TestAScrapeTellsOfAnEnsembleUnderTheNamesOfZooKeeper(t *testing.T) {
	base := server.Default()
	base.TickTime, base.SilenceTime, base.PreallocBytes = 200*time.Millisecond, 20*time.Second, 64<<10
	ensemble, err := inprocess.Start(inprocess.Options{Servers: 3, Base: base})
	if err != nil {
		t.Fatal(err)
	}
	defer ensemble.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	serve := func() bool {
		for id := 1; id <= 3; id++ {
			if s := ensemble.Server(id); s == nil || !s.Serves() {
				return false
			}
		}
		st := ensemble.Server(ensemble.Leader()).Status()
		followers, _, _ := st.Synced()
		return followers == 2
	}
	if err := ensemble.Await(ctx, func() bool { return ensemble.Leader() != 0 && serve() }); err != nil {
		t.Fatal(err)
	}
	leader := ensemble.Leader()
	follower := leader%3 + 1
	c, err := client.Dial(ctx, ensemble.Addr(leader), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, _, err := c.Create(ctx, "/x", []byte("12345"), client.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, _, err := c.Get(ctx, "/x"); err != nil {
			t.Fatal(err)
		}
	}
	// The followers are a quorum without the leader's disk, and a read is counted only
	// after its answer: the metrics may come late.
	for s := ensemble.Server(leader); ctx.Err() == nil && (s.Status().Syncs == 0 || s.Meters().Reads.Count < 3); {
		runtime.Gosched()
	}
	endpoints := map[int]*httptest.Server{}
	for _, id := range []int{leader, follower} {
		e := httptest.NewServer(Handler(New(ensemble.Server(id), "1.2.3"), id == leader, slog.New(slog.DiscardHandler)))
		defer e.Close()
		endpoints[id] = e
	}
	code, text, got := scrape(t, endpoints[leader])
	if code != http.StatusOK {
		t.Fatal(code, text)
	}
	for key, want := range map[string]string{
		"quorum_size": "3", "learners": "2", "synced_followers": "2", "synced_observers": "0", "global_sessions": "1",
		"readlatency_count": "3", "num_alive_connections": "1", "connection_rejected": "0", "watch_bytes": "0",
		"startup_txns_loaded_count": "1", "conclave_server_serving": "1", "conclave_server_read_seconds_count": "3",
		`conclave_server_info{id="` + fmt.Sprint(leader) + `",mode="leader",version="1.2.3"}`: "1",
		`conclave_server_learner_in_sync{server="` + fmt.Sprint(follower) + `"}`:              "1",
	} {
		if got[key] != want {
			t.Errorf("%s is %q, not %s", key, got[key], want)
		}
	}
	for _, key := range []string{
		"updatelatency_count", "fsynctime_count", "sync_processor_batch_size_sum", "bytes_received_count", "response_bytes",
		"proposal_count", "commit_count", "open_file_descriptor_count", "conclave_server_epoch", "go_goroutines",
		"process_open_fds", `readlatency{quantile="0.99"}`, "last_proposal_size",
	} {
		if v := got[key]; v == "" || v == "0" || v == "NaN" {
			t.Errorf("%s is %q", key, v)
		}
	}
	for _, want := range []string{"# TYPE readlatency summary\n", "# TYPE commit_count counter\n", "# TYPE znode_count gauge\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
	code, text, got = scrape(t, endpoints[follower])
	if code != http.StatusOK || got["learners"] != "" || got["leader_uptime"] != "" || got["go_goroutines"] != "" ||
		got["synced_observers"] != "0" || got["conclave_server_leader_id"] != fmt.Sprint(leader) {
		t.Errorf("the follower says %d\n%s", code, text)
	}
	_, _, all := scrape(t, endpoints[leader])
	for _, r := range names { // what is said to be served is
		key := r.name
		switch {
		case r.of != nil:
			continue // there may be none of a set
		case r.spread != nil:
			key += "_count"
		}
		if _, there := all[key]; there != r.served() {
			t.Errorf("%s is there: %v", r.name, there)
		}
	}
	if err := ensemble.Stop(follower); err != nil { // metrics-M2
		t.Fatal(err)
	}
	if code, text, _ := scrape(t, endpoints[follower]); code != http.StatusInternalServerError || !strings.Contains(text, "has ended") {
		t.Errorf("of a server that has ended: %d %s", code, text)
	}
}

// Clients choose path names: a name that cannot be a label must not remove any other metric.
func TestAScrapeWithoutNamesThatAreNotUTF8(t *testing.T) {
	s := told{dir: t.TempDir()}
	s.status.Mode = server.ModeStandalone
	s.meters.ReadBy = map[string]tally.Named{"a\xff": {Count: 5}, "b": {Count: 6}}
	s.meters.Quotas = map[string]server.Quota{"\xfe": {}, "b": {Count: 7}}
	port := httptest.NewServer(Handler(New(&s, "1"), false, slog.New(slog.DiscardHandler)))
	defer port.Close()
	code, text, got := scrape(t, port)
	if code != 200 || got[`read_per_namespace_count{key="b"}`] != "6" || got[`quota_count_usage_per_namespace{key="b"}`] != "7" {
		t.Errorf("status %d: %.300s", code, text)
	}
}
