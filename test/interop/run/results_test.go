//go:build linux

package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// summary returns "+" or "-" and the name for each result.
func summary(results []result) string {
	var names []string
	for _, r := range results {
		sign := "-"
		if r.passed {
			sign = "+"
		}
		names = append(names, sign+r.name)
	}
	return strings.Join(names, " ")
}

func TestLinesOfTheCSuiteAreRead(t *testing.T) {
	results := parseLines("noise\nok a\nnot ok b: line 3: it broke\n")
	if got := summary(results); got != "+a -b" || results[1].detail != "line 3: it broke" {
		t.Fatalf("%s %+v", got, results)
	}
}

func TestAProgramThatBreaksOffIsAFailure(t *testing.T) {
	got := endedWell(parseLines("ok a\n"), errors.New("signal: segmentation fault"), "ok a\n")
	if summary(got) != "+a -ends well" {
		t.Fatal(summary(got))
	}
}

func TestOnlyLeavesOfGoTestsCountAndSkipsHaveNotPassed(t *testing.T) {
	out := `{"Action":"run","Test":"TestA"}
{"Action":"output","Test":"TestA/x","Output":"why\n"}
{"Action":"fail","Test":"TestA/x"}
{"Action":"pass","Test":"TestA/y"}
{"Action":"fail","Test":"TestA"}
{"Action":"pass","Test":"TestB/z"}
{"Action":"pass","Test":"TestB"}
{"Action":"skip","Test":"TestC"}
{"Action":"fail"}
`
	results, err := parseGoTest(out, errors.New("exit status 1"))
	if err != nil || summary(results) != "-TestA/x +TestA/y +TestB/z -TestC" || results[0].detail != "why\n" {
		t.Fatalf("%s %v", summary(results), err)
	}
	if _, err := parseGoTest("does not compile\n", errors.New("exit status 1")); err == nil ||
		!strings.Contains(err.Error(), "does not compile") {
		t.Errorf("no tests: %v", err)
	}
}

func TestJUnitReportsOfMavenAndPytestAreRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.xml")
	text := `<testsuites><testsuite><testcase classname="p.q.C" name="a"/>
<testcase classname="C" name="b"><failure message="why">where</failure></testcase>
<testcase classname="C" name="c"><skipped/></testcase></testsuite></testsuites>`
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	results, err := parseJUnit([]string{file}, "", nil)
	if err != nil || summary(results) != "+C.a -C.b -C.c" || results[1].detail != "why\nwhere" {
		t.Fatalf("%s %+v %v", summary(results), results, err)
	}
}

// A class that has tested no server of Conclave has failed, too.
func TestClassOfOthersWithoutAReportHasFailed(t *testing.T) {
	tests := []ownTest{{class: "ATest", without: []string{"testX*", "testY"}, why: ownClock}, {class: "BTest"}}
	if got, want := chosenTests(tests), "ATest,!ATest#testX*,!ATest#testY,BTest"; got != want {
		t.Errorf("Maven is told %s, want %s", got, want)
	}
	dir := t.TempDir()
	text := `<testsuite><property value="/x/booter-1.jar"/><testcase classname="p.ATest" name="a"/></testsuite>`
	if err := os.WriteFile(filepath.Join(dir, "TEST-p.ATest.xml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		served []string
		want   string
	}{
		{nil, "+ATest.a -BTest"}, // on Apache's servers
		{[]string{"/x/booter-2.jar", "/x/booter-1.jar"}, "+ATest.a -BTest"},
		{[]string{"/x/booter-2.jar"}, "+ATest.a -ATest -BTest"},
	} {
		results, err := ownResults(dir, tests, c.served, "", nil)
		if err != nil || summary(results) != c.want {
			t.Errorf("served by %q: %s %v, want %s", c.served, summary(results), err, c.want)
		}
	}
}

func TestTheLastLineCountsAll(t *testing.T) {
	var out bytes.Buffer
	r := &report{out: &out}
	r.suite("one", parseLines("ok a\nnot ok b: why\n"), nil, time.Second)
	if code := r.finish(); code != 1 || !strings.HasSuffix(out.String(), "\n1 passed, 1 failed\n") {
		t.Errorf("code %d:\n%s", code, out.String())
	}
	r.suite("two", nil, errors.New("no Java"), 0)
	if code := r.finish(); code != 2 || !strings.HasSuffix(out.String(), "\n1 passed, 2 failed\n") {
		t.Errorf("code %d:\n%s", code, out.String())
	}
}
