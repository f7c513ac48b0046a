package elector

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/tracetest"
)

// TestTraces runs every file of testdata. A file starts with a sentence and then alternates
// between blocks of "TIME EVENT key=value ..." lines and, after "----", the effects of each
// block.
func TestTraces(t *testing.T) {
	tracetest.Run(t, runTrace)
}

func runTrace(t *testing.T, text string) string {
	t.Helper()
	m := New(Config{GraceMs: 2000, DriftPercent: 5, RetryMs: 200, RetryMaxMs: 2000, ReleaseMs: 3000})
	var out strings.Builder
	for block := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n\n") {
		commands, _, _ := strings.Cut(block, "----")
		var effects []string
		for line := range strings.SplitSeq(strings.TrimSpace(commands), "\n") {
			if strings.HasPrefix(line, "#") {
				continue
			}
			fields := strings.Fields(line)
			if fields[0] == "config" {
				m = New(parseConfig(t, fields[1:]))
				continue
			}
			now, event := parseEvent(t, fields)
			for _, effect := range m.Step(now, event) {
				effects = append(effects, effect.String())
			}
		}
		effects = append(effects, fmt.Sprintf("(%s)", describe(m)))
		fmt.Fprintf(&out, "%s\n----\n%s\n\n", strings.TrimSpace(commands), strings.Join(effects, "\n"))
	}
	return strings.TrimRight(out.String(), "\n") + "\n"
}

func describe(m *Machine) string {
	names := [...]string{"idle", "campaigning", "abandoning", "leading", "ending", "fenced",
		"releasing", "waiting", "finished"}
	if wake, ok := m.WakeMs(); ok {
		return fmt.Sprintf("%s, wake %d", names[m.phase], wake)
	}
	return names[m.phase]
}

func parseConfig(t *testing.T, fields []string) Config {
	v := values(t, fields)
	return Config{LeaseMs: v["lease"], GraceMs: v["grace"], EndLimitMs: v["endlimit"], DriftPercent: v["drift"], RetryMs: v["retry"],
		RetryMaxMs: v["retrymax"], ReleaseMs: v["release"], Forever: v["forever"] != 0,
		HealthFailures: int(v["health"])}
}

func parseEvent(t *testing.T, fields []string) (int64, Event) {
	t.Helper()
	now, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil || len(fields) < 2 {
		t.Fatalf("bad line %q", fields)
	}
	v := values(t, fields[2:])
	a, r, final, lost := uint64(v["attempt"]), uint64(v["renewal"]), v["final"] != 0, v["lost"] != 0
	events := map[string]Event{
		"start":          Start{},
		"acquired":       Acquired{a, uint64(v["token"]), v["sent"], v["lease"]},
		"acquire-failed": AcquireFailed{a, final},
		"renewed":        Renewed{a, r, v["sent"], v["lease"], v["rival"] != 0},
		"renew-failed":   RenewFailed{a, r, lost},
		"loss-seen":      LossSeen{a},
		"end-seen":       EndSeen{a},
		"function-ended": FunctionEnded{a, final},
		"released":       Released{a},
		"resign":         Resign{a},
		"hurry":          Hurry{a},
		"transfer":       Transfer{},
		"nominated":      Nominated{a, uint64(v["nomination"]), v["ready"] != 0},
		"health":         Health{v["passed"] != 0},
		"stop":           Stop{},
		"tick":           Tick{},
	}
	event, ok := events[fields[1]]
	if !ok {
		t.Fatalf("unknown event %q", fields[1])
	}
	return now, event
}

func values(t *testing.T, fields []string) map[string]int64 {
	t.Helper()
	out := make(map[string]int64)
	for _, field := range fields {
		key, text, _ := strings.Cut(field, "=")
		number, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatalf("bad value %q", field)
		}
		out[key] = number
	}
	return out
}
