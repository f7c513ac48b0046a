//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"text/tabwriter"

	"github.com/conclave-project/conclave/test/bench/middle"
)

// A report collects measurements by server.
type report struct {
	Machine string                `json:"machine"`
	Load    string                `json:"load"`
	Servers []string              `json:"servers"`
	Figures []string              `json:"figures"` // in the order of the table
	Samples map[string][]measured `json:"samples"` // by server, one for each repetition
	goals   map[string]bound
}

func (p *plan) ensemble() string {
	if p.size == 1 {
		return "one server"
	}
	text := fmt.Sprintf("ensemble of %d, server CPU summed over it", p.size)
	if p.atLeader {
		text += ", all connections to the leader"
	}
	return text
}

func newReport(p *plan) *report {
	over := ""
	if p.secure {
		over = ", over TLS"
	}
	r := &report{Machine: machine(), Samples: map[string][]measured{},
		goals: p.goals,
		Load: fmt.Sprintf("%s%s, %d connections, %d requests in flight on each, %d bytes of data, %v each, median of %d",
			p.ensemble(), over, p.connections, p.inFlight, p.dataBytes, p.duration, p.repetitions)}
	for _, k := range p.subjects {
		r.Servers = append(r.Servers, k.Name())
	}
	for _, name := range p.parts {
		switch name {
		case "memory":
			r.Figures = append(r.Figures, "memory "+resident)
		case "restart":
			r.Figures = append(r.Figures, "restart "+untilServe, "restart "+resident)
		default:
			for _, figure := range []string{perSecond, median, tail, serverCPU, leaderCPU, clientCPU} {
				if figure == leaderCPU && (p.size == 1 || !p.atLeader) {
					continue
				}
				r.Figures = append(r.Figures, name+" "+figure)
			}
		}
	}
	return r
}

func (r *report) add(server string, m measured) { r.Samples[server] = append(r.Samples[server], m) }

// median returns the median of a server's figure; false if it was not measured.
func (r *report) median(server, figure string) (float64, bool) {
	var values []float64
	for _, m := range r.Samples[server] {
		if v, ok := m[figure]; ok {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return 0, false
	}
	return middle.Of(values), true
}

// A bound is a limit of a ratio, from above or from below.
type bound struct {
	limit   float64
	atLeast bool
}

// goals are the ratios to Apache ZooKeeper that the project aims at: for one server, and
// for an ensemble of three.
var (
	goals = map[string]bound{
		"get " + serverCPU: atMost(0.05), "set " + serverCPU: atMost(0.15), "create " + serverCPU: atMost(0.15), "mix " + serverCPU: atMost(0.12),
		"single " + median: atMost(0.5), "single " + tail: atMost(1),
		"memory " + resident: atMost(1. / 8), "restart " + untilServe: atMost(1. / 10),
	}
	ensembleGoals = map[string]bound{
		"get " + serverCPU: atMost(0.05), "set " + serverCPU: atMost(0.10), "create " + serverCPU: atMost(0.15), "mix " + serverCPU: atMost(0.10),
		"set " + perSecond: atLeast(3), "create " + perSecond: atLeast(3), "get " + perSecond: atLeast(3), "mix " + perSecond: atLeast(3),
		"single " + median: atMost(0.5), "single " + tail: atMost(1),
	}
)

func atMost(limit float64) bound  { return bound{limit: limit} }
func atLeast(limit float64) bound { return bound{limit: limit, atLeast: true} }

// text returns the table. Ratios are to the first server.
func (r *report) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n\n", r.Machine, r.Load)
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', tabwriter.AlignRight)
	width := 0
	for _, figure := range r.Figures {
		width = max(width, len([]rune(figure)))
	}
	fmt.Fprintf(w, "%-*s\t", width, "")
	for i, s := range r.Servers {
		fmt.Fprintf(w, "%s\t", s)
		if i > 0 {
			fmt.Fprint(w, "ratio\t")
			if len(r.goals) > 0 {
				fmt.Fprint(w, "goal\t")
			}
		}
	}
	fmt.Fprintln(w)
	for _, figure := range r.Figures {
		fmt.Fprintf(w, "%-*s\t", width, figure)
		first, _ := r.median(r.Servers[0], figure)
		for i, s := range r.Servers {
			value, ok := r.median(s, figure)
			if !ok {
				value = 0
			}
			fmt.Fprintf(w, "%s\t", show(value))
			if i > 0 {
				fmt.Fprintf(w, "%s\t", ratio(value, first))
				if len(r.goals) > 0 {
					fmt.Fprintf(w, "%s\t", r.goal(figure, value, first))
				}
			}
		}
		fmt.Fprintln(w)
	}
	w.Flush()
	return b.String()
}

// show writes a figure with about three digits.
func show(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func ratio(value, first float64) string {
	if first == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", value/first)
}

// goal returns a remark whether a ratio meets its goal.
func (r *report) goal(figure string, value, first float64) string {
	g, ok := r.goals[figure]
	if !ok || first == 0 {
		return ""
	}
	sign, met := "<=", value/first <= g.limit
	if g.atLeast {
		sign, met = ">=", value/first >= g.limit
	}
	if met {
		return fmt.Sprintf("%s %.3g met", sign, g.limit)
	}
	return fmt.Sprintf("%s %.3g MISSED", sign, g.limit)
}

// machine describes the machine on which the figures were measured.
func machine() string {
	model := "unknown processor"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	java := "no java"
	if out, err := exec.Command("java", "-version").CombinedOutput(); err == nil {
		java, _, _ = strings.Cut(string(out), "\n")
	}
	return fmt.Sprintf("%d x %s, %s, %s, load average %s", runtime.NumCPU(), model, runtime.Version(), java, loadAverage())
}

// loadAverage returns the machine's load averages, over 1, 5 and 15 minutes, which show
// what else it has done.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 3 {
		return "unknown"
	}
	return strings.Join(fields[:3], " ")
}
