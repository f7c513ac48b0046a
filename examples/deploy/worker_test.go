//go:build conformance

package deploy

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// limit is far longer than anything here takes.
const limit = time.Minute

// writeWorker writes a worker that logs when it begins and ends, and returns its
// path.
func writeWorker(t testing.TB, log string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "worker")
	if err := os.WriteFile(file, fmt.Appendf(nil, `#!/bin/sh
trap 'echo "end $POD_NAME $CONCLAVE_TOKEN" >> %[1]s; exit 0' TERM
echo "begin $POD_NAME $CONCLAVE_TOKEN" >> %[1]s
while :; do sleep 0.05; done
`, log), 0o755); err != nil {
		t.Fatal(err)
	}
	return file
}

// checkTurns checks the order of leaders in a log: tokens grow, and a leader that was
// told to end has ended before the next one begins.
func checkTurns(t testing.TB, log string, leaders ...string) {
	t.Helper()
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	var begun []string
	var open string
	var last uint64
	for line := range strings.Lines(string(text)) {
		var verb, name string
		var token uint64
		if _, err := fmt.Sscan(line, &verb, &name, &token); err != nil {
			t.Fatalf("log line %q: %v", line, err)
		}
		switch {
		case verb == "begin" && token > last:
			begun, open, last = append(begun, name), name, token
		case verb == "end" && open == name && token == last:
			open = ""
		default:
			t.Errorf("%q does not follow from what is before it:\n%s", strings.TrimSpace(line), text)
		}
	}
	if strings.Join(begun, " ") != strings.Join(leaders, " ") {
		t.Errorf("%v led, want %v", begun, leaders)
	}
}

// await returns when the condition holds.
func await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited %v in vain until %s", limit, what)
		}
	}
}

// has reports whether the file has a line with this beginning.
func has(file, line string) bool {
	text, err := os.ReadFile(file)
	return err == nil && strings.Contains("\n"+string(text), "\n"+line)
}

// descendants returns the children of a process, their children, and so on.
func descendants(pid int) []int {
	children := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// The name, in parentheses, may contain anything.
		var child, parent int
		var state string
		_, _ = fmt.Sscan(string(text), &child)
		_, _ = fmt.Sscan(string(text[strings.LastIndexByte(string(text), ')')+1:]), &state, &parent)
		children[parent] = append(children[parent], child)
	}
	var all []int
	for queue := children[pid]; len(queue) > 0; queue = queue[1:] {
		all = append(all, queue[0])
		queue = append(queue, children[queue[0]]...)
	}
	return all
}
