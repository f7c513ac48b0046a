//go:build linux && interop

package monitoring

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/childtest"
	"github.com/conclave-project/conclave/test/servers"
	"github.com/conclave-project/conclave/zk"
)

// config opens the port for metrics, and sets limits that the alerts use.
var config = []string{
	"metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider",
	"metricsProvider.httpHost=127.0.0.1", "metricsProvider.httpPort=0", "maxCnxns=1000", "enforceQuota=true", "skipACL=yes",
}

const docs = "../../docs/monitoring/"

// TestPrometheusGetsWhatTheAlertsAndDashboardsAskFor needs the Debian package prometheus.
func TestPrometheusGetsWhatTheAlertsAndDashboardsAskFor(t *testing.T) {
	run(t, ".", nil, "promtool", "check", "rules", docs+"conclave.rules.yml")
	run(t, docs, nil, "promtool", "test", "rules", "conclave.rules.test.yml")
	e, err := servers.NewEnsemble(t.Context(), servers.EnsembleOptions{Kinds: []servers.Kind{servers.Conclave(), servers.Conclave(), servers.Conclave()},
		Config: append(slices.Clip(config), "conclave.backupPlace="+t.TempDir(), "conclave.backupFreeBytesMin=0")})
	must(t, err)
	t.Cleanup(func() { e.Close() })
	must(t, e.Start(t.Context()))
	leader, err := e.AwaitLeader(t.Context())
	must(t, err)
	var targets []string
	for _, m := range e.Members {
		targets = append(targets, scraped(t, m))
	}
	use(t, e, leader)
	p := startPrometheus(t, targets)
	p.await(t, "three targets are up", `count(up{job="zookeeper"} == 1) == 3`)
	p.await(t, "each is scraped five times", `min(count_over_time(up{job="zookeeper"}[1h])) >= 5`)
	use(t, e, leader)
	p.await(t, "what was done since is scraped", `count(rate(updatelatency_count[1m]) > 0) > 0`)
	p.alerts(t)
	p.dashboard(t)
	p.stock(t)
	for _, target := range targets {
		lint(t, target)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// run runs a program, whose exit code must be 0.
func run(t *testing.T, dir string, in io.Reader, args ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), args[0], args[1:]...)
	c.Dir, c.Stdin = dir, in
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

var servedAt = regexp.MustCompile(`metrics are served.*address"?[=:]"?([0-9.:]+)`)

// scraped returns the address of a server's port for metrics, which it logs.
func scraped(t *testing.T, m *servers.Member) string {
	t.Helper()
	found := servedAt.FindStringSubmatch(m.Log())
	if found == nil {
		t.Fatalf("server %d does not say where its metrics are:\n%s", m.ID, m.LogTail(4000))
	}
	return found[1]
}

// use causes everything that has its own label: reads, writes and quotas by namespace,
// watches, and acks of both followers.
func use(t *testing.T, e *servers.Ensemble, leader *servers.Member) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, m := range e.Members {
		c, err := client.Dial(ctx, m.Addr, client.Options{})
		must(t, err)
		defer c.Close()
		create := func(path, data string) {
			if _, _, err := c.Create(ctx, path, []byte(data), client.CreateOptions{}); err != nil && !isThere(ctx, c, path) {
				t.Fatal(err)
			}
		}
		create("/app", "data")
		if m == leader {
			create(zk.QuotaPath+"/app", "")
			create(zk.QuotaPath+"/app/zookeeper_limits", "count=100,bytes=10000")
			create(zk.QuotaPath+"/app/zookeeper_stats", "count=0,bytes=0")
		}
		for range 20 {
			_, _, err := c.Get(ctx, "/app")
			must(t, err)
			_, err = c.Set(ctx, "/app", []byte("more"), -1)
			must(t, err)
		}
	}
}

func isThere(ctx context.Context, c *client.Client, path string) bool {
	_, _, err := c.Get(ctx, path)
	return err == nil
}

// prometheus is a running Prometheus.
type prometheus struct{ base string }

func startPrometheus(t *testing.T, targets []string) *prometheus {
	t.Helper()
	dir := t.TempDir()
	rules, err := filepath.Abs(docs + "conclave.rules.yml")
	must(t, err)
	text := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%q]\n"+
		"scrape_configs:\n- job_name: zookeeper\n  static_configs: [{targets: [%s]}]\n", rules, strings.Join(targets, ", "))
	must(t, os.WriteFile(dir+"/prometheus.yml", []byte(text), 0o600))
	run(t, dir, nil, "promtool", "check", "config", "prometheus.yml")
	addr := fmt.Sprintf("127.0.0.1:%d", childtest.Port(t))
	log, err := os.Create(dir + "/log")
	must(t, err)
	defer log.Close()
	c := exec.Command("prometheus", "--config.file", dir+"/prometheus.yml", "--storage.tsdb.path", dir+"/data", "--web.listen-address", addr)
	c.Stdout, c.Stderr = log, log
	childtest.Start(t, c)
	t.Cleanup(func() {
		if text, err := os.ReadFile(dir + "/log"); t.Failed() && err == nil {
			t.Logf("Prometheus says:\n%s", text[max(0, len(text)-4000):])
		}
	})
	return &prometheus{"http://" + addr}
}

// get sends a request to its API; it returns false while there is no answer.
func (p *prometheus) get(t *testing.T, path string, into any) bool {
	t.Helper()
	response, err := http.Get(p.base + path)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return false
	}
	if response.StatusCode == http.StatusBadRequest || response.StatusCode == http.StatusUnprocessableEntity {
		t.Errorf("%s: %s", path, body)
		return false
	}
	return response.StatusCode == http.StatusOK && json.Unmarshal(body, into) == nil
}

// results returns how many series a query finds now.
func (p *prometheus) results(t *testing.T, query string) int {
	t.Helper()
	var answer struct {
		Data struct{ Result []json.RawMessage }
	}
	p.get(t, "/api/v1/query?query="+url.QueryEscape(query), &answer)
	return len(answer.Data.Result)
}

func (p *prometheus) await(t *testing.T, what, query string) {
	t.Helper()
	awaittest.Until(t, what, func() bool { return p.results(t, query) > 0 })
}

// alerts checks the rules: all can be evaluated, the metrics that they name exist, and none
// fires while all is well.
func (p *prometheus) alerts(t *testing.T) {
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Query, Health, State, LastError string }
			}
		}
	}
	if !p.get(t, "/api/v1/rules", &answer) {
		t.Fatal("Prometheus does not tell of its rules")
	}
	rules := 0
	for _, g := range answer.Data.Groups {
		for _, r := range g.Rules {
			rules++
			if r.Health != "ok" || r.State == "firing" {
				t.Errorf("%s is %s, %s: %s", r.Name, r.Health, r.State, r.LastError)
			}
			for _, name := range namesIn(r.Query) {
				if p.results(t, name) == 0 {
					t.Errorf("%s: nobody has %s", r.Name, name)
				}
			}
		}
	}
	if rules < 20 {
		t.Errorf("there are %d rules", rules)
	}
}

// dashboard runs the query of each panel.
func (p *prometheus) dashboard(t *testing.T) {
	text, err := os.ReadFile(docs + "conclave.grafana.json")
	must(t, err)
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	must(t, json.Unmarshal(text, &d))
	queries := 0
	for _, panel := range d.Panels {
		for _, target := range panel.Targets {
			queries++
			expr := strings.NewReplacer("$job", "zookeeper", "$instance", ".+", "$__rate_interval", "1m").Replace(target.Expr)
			if p.results(t, expr) == 0 {
				t.Errorf("panel %q has nothing to show: %s", panel.Title, expr)
			}
		}
	}
	if queries < 50 {
		t.Errorf("there are %d queries", queries)
	}
}

// stock runs the queries of the dashboard for Apache ZooKeeper. For each missing metric,
// docs/metrics.md has the reason; metrics of the Java process do not exist.
func (p *prometheus) stock(t *testing.T) {
	list, err := os.ReadFile("../../cmd/conclave/internal/metrics/testdata/grafana-10465.txt")
	must(t, err)
	page, err := os.ReadFile("../../docs/metrics.md")
	must(t, err)
	_, without, found := strings.Cut(string(page), "## ZooKeeper's that are not")
	if !found {
		t.Fatal("docs/metrics.md has no list of what is not served")
	}
	there, excused := 0, 0
	for name := range strings.Lines(string(list)) {
		if name = strings.TrimSpace(name); name == "" || name[0] == '#' {
			continue
		}
		base := strings.TrimSuffix(strings.TrimSuffix(name, "_sum"), "_count")
		reason := strings.HasPrefix(name, "jvm_") || strings.Contains(without, "`"+name+"`") || strings.Contains(without, "`"+base+"`")
		switch data := p.results(t, name) > 0; {
		case data && !reason:
			there++
		case !data && reason:
			excused++
		default:
			t.Errorf("%s: there is data: %t; docs/metrics.md says why not: %t", name, data, reason)
		}
	}
	t.Logf("of the names of dashboard 10465 %d have data, %d a reason", there, excused)
	if there < 70 {
		t.Errorf("%d names have data", there)
	}
}

// lint runs promtool on a server's metrics. ZooKeeper's names break its naming rules; ours
// do not.
func lint(t *testing.T, target string) {
	t.Helper()
	response, err := http.Get("http://" + target + "/metrics")
	must(t, err)
	defer response.Body.Close()
	c := exec.CommandContext(t.Context(), "promtool", "check", "metrics")
	c.Stdin = response.Body
	out, err := c.CombinedOutput()
	const lintOnly = 3 // promtool's exit code if everything could be read
	if err != nil && c.ProcessState.ExitCode() != lintOnly {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "conclave_") {
			t.Error(line)
		}
	}
}

var (
	selectors = regexp.MustCompile(`\{[^}]*\}|\b[0-9][0-9.]*(e[+-]?[0-9]+)?|\[[^\]]*\]|"[^"]*"|\b(by|without|on|ignoring)\s*\([^)]*\)`)
	names     = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*(\s*\()?`)
)

// namesIn returns the names of metrics in a query.
func namesIn(query string) []string {
	var out []string
	for _, name := range names.FindAllString(selectors.ReplaceAllString(query, ""), -1) {
		switch {
		case strings.HasSuffix(name, "("): // it is a function
		case name == "and", name == "or", name == "unless":
		default:
			out = append(out, name)
		}
	}
	return out
}
