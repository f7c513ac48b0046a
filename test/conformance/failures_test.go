//go:build linux

package main

import (
	"strings"
	"testing"
)

func TestFailedTestsSayWhy(t *testing.T) {
	const log = `=== RUN   TestOne
=== RUN   TestOne/Good
    a.go:1: fine
=== RUN   TestOne/Bad
    a.go:2: the reason
=== NAME  TestOne/Good
    a.go:3: still fine
=== NAME  TestOne/Bad
    a.go:4: more of it
--- FAIL: TestOne (0.00s)
    --- PASS: TestOne/Good (0.00s)
    --- FAIL: TestOne/Bad (0.00s)
=== RUN   TestTwo
    a.go:5: fine too
--- PASS: TestTwo (0.00s)
FAIL
`
	want := `--- FAIL: TestOne (0.00s)
    a.go:2: the reason
    a.go:4: more of it
    --- FAIL: TestOne/Bad (0.00s)
`
	if got := failures(log); got != want {
		t.Errorf("failures returns\n%s\nwant\n%s", got, want)
	}
	long := strings.Repeat("a line\n", failureLines) + "panic: at the end\n"
	if got := failures(long); !strings.HasSuffix(got, "panic: at the end\n") || strings.Count(got, "\n") != failureLines {
		t.Errorf("failures returns %d lines of a panic, ending in %q", strings.Count(got, "\n"), got[max(0, len(got)-30):])
	}
}
