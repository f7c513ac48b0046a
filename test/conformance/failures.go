//go:build linux

package main

import (
	"slices"
	"strings"
)

// failureLines limits how much is printed of a test that failed, and of output that names none.
const failureLines = 60

// failures returns the end of what each failed test printed, from the output of go test -v; the end of
// the output if it names no failed test, as after a panic.
func failures(log string) string {
	printed := map[string][]string{} // by test
	var failed []string
	var test string
	for line := range strings.Lines(log) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 3 && fields[0] == "===":
			test = fields[2]
			continue
		case len(fields) == 4 && fields[0] == "---":
			test = fields[2]
			if fields[1] == "FAIL:" {
				failed = append(failed, test)
			}
		}
		printed[test] = append(printed[test], line)
	}
	if len(failed) == 0 {
		return end(slices.Collect(strings.Lines(log)))
	}
	var text strings.Builder
	for _, test := range failed {
		text.WriteString(end(printed[test]))
	}
	return text.String()
}

// end joins the last lines.
func end(lines []string) string { return strings.Join(lines[max(0, len(lines)-failureLines):], "") }
