//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"strings"
)

// A result is one test of one suite.
type result struct {
	name   string
	passed bool
	detail string // why it failed
}

// parseLines parses "ok NAME" and "not ok NAME: WHY"; other lines are ignored.
func parseLines(out string) []result {
	var results []result
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "ok "); ok {
			results = append(results, result{name: name, passed: true})
		}
		if rest, ok := strings.CutPrefix(line, "not ok "); ok {
			name, why, _ := strings.Cut(rest, ": ")
			results = append(results, result{name: name, detail: why})
		}
	}
	return results
}

// endedWell adds a failure if a program ended with an error although all tests that it
// reported have passed: it stopped in the middle.
func endedWell(results []result, err error, out string) []result {
	for _, r := range results {
		if !r.passed {
			return results
		}
	}
	if err != nil {
		return append(results, result{name: "ends well", detail: fmt.Sprintf("%v\n%s", err, out)})
	}
	return results
}

// parseGoTest parses the events of "go test -json". Only leaves count: for a test with
// subtests, only the subtests.
func parseGoTest(out string, runErr error) ([]result, error) {
	type event struct{ Action, Test, Output string }
	output := map[string]string{}
	var results []result
	var rest strings.Builder
	lines := bufio.NewScanner(strings.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Fprintln(&rest, lines.Text())
			continue
		}
		switch {
		case e.Action == "output":
			output[e.Test] += e.Output
		case e.Test == "" || e.Action != "pass" && e.Action != "fail" && e.Action != "skip":
		default:
			// A skipped test has shown nothing, so it has not passed.
			results = append(results, result{e.Test, e.Action == "pass", output[e.Test]})
		}
	}
	if len(results) == 0 {
		return nil, fmt.Errorf("no test ran: %v\n%s%s", runErr, rest.String(), output[""])
	}
	return endedWell(leaves(results), runErr, output[""]+rest.String()), lines.Err()
}

// leaves returns the results without parents. A parent stays if it failed although none of
// its subtests did.
func leaves(results []result) []result {
	parents, blamed := map[string]bool{}, map[string]bool{}
	for _, r := range results {
		for i, c := range r.name {
			if c == '/' {
				parents[r.name[:i]] = true
				blamed[r.name[:i]] = blamed[r.name[:i]] || !r.passed
			}
		}
	}
	var kept []result
	for _, r := range results {
		if !parents[r.name] || !r.passed && !blamed[r.name] {
			kept = append(kept, r)
		}
	}
	return kept
}

// junitSuite is the format of Surefire and pytest; pytest wraps suites in another element.
type junitSuite struct {
	Suites []junitSuite `xml:"testsuite"`
	Cases  []struct {
		Name    string        `xml:"name,attr"`
		Class   string        `xml:"classname,attr"`
		Failure *junitFailure `xml:"failure"`
		Error   *junitFailure `xml:"error"`
		Skipped *junitFailure `xml:"skipped"`
	} `xml:"testcase"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

func parseJUnit(files []string, out string, runErr error) ([]result, error) {
	var results []result
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("no test report: %w\n%s", err, out), runErr)
		}
		var s junitSuite
		if err := xml.Unmarshal(text, &s); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		results = append(results, s.results()...)
	}
	if len(results) == 0 {
		return nil, fmt.Errorf("no test ran: %v\n%s", runErr, out)
	}
	return endedWell(results, runErr, out), nil
}

func (s junitSuite) results() []result {
	var results []result
	for _, c := range s.Cases {
		r := result{name: c.Class[strings.LastIndexByte(c.Class, '.')+1:] + "." + c.Name, passed: true}
		for _, f := range []*junitFailure{c.Failure, c.Error, c.Skipped} {
			if f != nil {
				r.passed, r.detail = false, strings.TrimSpace(f.Message+"\n"+f.Text)
			}
		}
		results = append(results, r)
	}
	for _, inner := range s.Suites {
		results = append(results, inner.results()...)
	}
	return results
}
