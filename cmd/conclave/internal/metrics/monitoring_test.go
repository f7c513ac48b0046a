package metrics

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// asked returns the metrics that a query of PromQL names.
func asked(query string) []string {
	var out []string
	for _, name := range identifiers.FindAllString(besides.ReplaceAllString(query, ""), -1) {
		switch {
		case strings.HasSuffix(name, "("): // a function
		case name == "and", name == "or", name == "unless":
		default:
			out = append(out, name)
		}
	}
	return out
}

var (
	besides     = regexp.MustCompile(`\{[^}]*\}|\[[^\]]*\]|\b(by|without|on|ignoring)\s*\([^)]*\)|\b[0-9][0-9.]*`)
	identifiers = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*(\s*\()?`)
)

// servedNames returns all series names of a server, and which of them Apache has, too.
func servedNames() (all, apaches map[string]bool) {
	all, apaches = map[string]bool{"up": true}, map[string]bool{"up": true}
	for i := range names {
		r := &names[i]
		if !r.served() {
			continue
		}
		for _, suffix := range []string{"", "_sum", "_count"} {
			if suffix == "" || r.spread != nil || summaries[r.name] {
				all[r.name+suffix], apaches[r.name+suffix] = true, true
			}
		}
	}
	for _, n := range ownNames {
		all[n.name] = true
		if strings.HasSuffix(n.name, "_seconds") {
			all[n.name+"_bucket"] = true
		}
	}
	for _, n := range []string{"process_cpu_seconds_total", "process_resident_memory_bytes"} {
		all[n] = true
	}
	return all, apaches
}

// The alerts of the first group also work for Apache, so they name none of our own metrics.
func TestAlertsNameWhatIsServed(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/monitoring/conclave.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	runbooks, err := os.ReadFile("../../../../docs/runbooks.md")
	if err != nil {
		t.Fatal(err)
	}
	all, apaches := servedNames()
	for group, part := range map[string]string{"zookeeper": "name: zookeeper", "conclave": "name: conclave"} {
		_, rules, found := strings.Cut(string(text), part)
		rules, _, _ = strings.Cut(rules, "\n  - name: ")
		known := all
		if group == "zookeeper" {
			known = apaches
		}
		n := 0
		for _, rule := range strings.Split(rules, "- alert: ")[1:] {
			name, rest, _ := strings.Cut(rule, "\n")
			if !strings.Contains(string(runbooks), "\n### "+name+"\n") {
				t.Errorf("%s has no runbook", name)
			}
			_, rest, _ = strings.Cut(rest, "expr:")
			expr, _, _ := strings.Cut(rest, "labels: {severity")
			expr, _, _ = strings.Cut(expr, "\n        for:")
			for _, metric := range asked(strings.TrimPrefix(strings.TrimSpace(expr), ">-")) {
				n++
				if !known[metric] {
					t.Errorf("%s asks for %s, which is no name of the group %s", name, metric, group)
				}
			}
		}
		if !found || n < 8 {
			t.Errorf("the group %s asks for %d names", group, n)
		}
	}
}

func TestTheDashboardNamesWhatIsServed(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/monitoring/conclave.grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	all, _ := servedNames()
	n := 0
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			for _, metric := range asked(target.Expr) {
				n++
				if !all[metric] {
					t.Errorf("panel %q asks for %s", p.Title, metric)
				}
			}
		}
	}
	if n < 60 {
		t.Errorf("it asks for %d names", n)
	}
}

// The dashboard that Apache's docs name is number 10465 of grafana.com. Each metric that it
// uses and that is not served either has a reason in the table or is about the Java process.
func TestWhatTheStockDashboardNamesIsServedOrHasAReason(t *testing.T) {
	text, err := os.ReadFile("testdata/grafana-10465.txt")
	if err != nil {
		t.Fatal(err)
	}
	all, _ := servedNames()
	rows := map[string]string{}
	for i := range names {
		rows[names[i].name] = names[i].text
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		name := strings.TrimSpace(line)
		if name == "" || name[0] == '#' {
			continue
		}
		n++
		base := strings.TrimSuffix(name, "_sum")
		if rows[base] == "" {
			base = strings.TrimSuffix(base, "_count")
		}
		if !all[name] && !strings.HasPrefix(rows[base], "no meaning: ") && !strings.HasPrefix(name, "jvm_") {
			t.Errorf("%s is not served, and the table has no reason: %q", name, rows[base])
		}
	}
	if n != 132 {
		t.Errorf("it has %d names", n)
	}
}
