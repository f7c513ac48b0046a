package main

import (
	"bytes"
	"encoding/base64"
	"runtime/debug"
	"strings"
	"testing"
)

func TestVersionsAreOrdered(t *testing.T) {
	order := []string{"v0.1.0-rc.2", "v0.1.0-rc.10", "v0.1.0-rc.x", "v0.1.0", "v0.1.9", "v0.1.10", "v0.2.0", "v1.0.0"}
	for i, a := range order {
		for j, b := range order {
			x, err1 := parseVersion(a)
			y, err2 := parseVersion(b)
			if err1 != nil || err2 != nil {
				t.Fatal(err1, err2)
			}
			if got := x.compare(y); (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%s and %s compare as %d", a, b, got)
			}
		}
	}
	for _, bad := range []string{"0.1.0", "v0.1", "v01.0.0", "v1.0.0+x", "v1.0.0 ", ""} {
		if _, err := parseVersion(bad); err == nil {
			t.Errorf("%q is taken for a version", bad)
		}
	}
}

func TestOnlyAPromisedKindOfVersionMayBreakTheAPI(t *testing.T) {
	for _, one := range []struct {
		earlier, next string
		may           bool
	}{{"v0.1.0", "v0.1.1", false}, {"v0.1.9", "v0.2.0", true}, {"v0.9.0", "v1.0.0", true}, {"v1.0.0", "v1.1.0", false}} {
		earlier, _ := parseVersion(one.earlier)
		next, _ := parseVersion(one.next)
		if next.mayBreak(earlier) != one.may {
			t.Errorf("from %s to %s: expected %v", one.earlier, one.next, one.may)
		}
	}
}

func TestReportsKeepWhatIsPromised(t *testing.T) {
	var c changes
	c.add(module{"example.com/m", "."}, `Incompatible changes:
- ./election.Options.Lease: removed
- ./electionx.Foo: removed
- ./election/electiontest.Figure: removed
- ./algo.Plan: removed
- package example.com/m/zk: removed
Compatible changes:
- ./client/recipes.Lock: added
- ./algo.All: added
`)
	c.add(module{"example.com/m/election/metrics", "election/metrics"}, "Incompatible changes:\n- New: removed\n")
	if got, want := strings.Join(c.breaking, "; "), "election.Options.Lease: removed; zk: removed; election/metrics: New: removed"; got != want {
		t.Errorf("breaking: %s", got)
	}
	if got := strings.Join(c.compatible, "; "); got != "client/recipes.Lock: added" {
		t.Errorf("compatible: %s", got)
	}
}

func TestASectionIsClosedAboveTheOlderOnes(t *testing.T) {
	const text = "# Changes\n\nIntroduction.\n\n## Not released yet\n\n* new\n\n## v0.1.0 (2026-01-01)\n\n* old\n"
	got, err := closed(text, "v0.2.0", "2026-02-02", changes{breaking: []string{"zk.X: removed"}})
	const want = "# Changes\n\nIntroduction.\n\n## Not released yet\n\n## v0.2.0 (2026-02-02)\n\n* new\n" +
		"\n### Breaking changes of the API\n\n* `zk.X: removed`\n\n## v0.1.0 (2026-01-01)\n\n* old\n"
	if err != nil || got != want {
		t.Errorf("got %v\n%s", err, got)
	}
	if _, err := closed(got, "v0.3.0", "", changes{}); err == nil {
		t.Error("a version in which nothing is new was closed")
	}
}

func TestBillsNameReleasedModulesAndTheSumsOfOthers(t *testing.T) {
	sum := "h1:" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{0xab}, 32))
	other, err := componentOf(&debug.Module{Path: "example.com/other", Version: "v1.2.3", Sum: sum}, "v0.2.0")
	if err != nil || other.URL != "pkg:golang/example.com/other@v1.2.3" || other.Hashes[0].Content != strings.Repeat("ab", 32) {
		t.Errorf("got %+v, %v", other, err)
	}
	own, err := componentOf(&debug.Module{Path: "example.com/own", Version: "(devel)"}, "v0.2.0")
	if err != nil || own.URL != "pkg:golang/example.com/own@v0.2.0" || own.Hashes != nil {
		t.Errorf("got %+v, %v", own, err)
	}
	if _, err := componentOf(&debug.Module{Path: "example.com/bad", Version: "v1.0.0", Sum: "h1:AAAA"}, "v0.2.0"); err == nil {
		t.Error("a damaged sum was taken")
	}
}

func TestTagsAreWhatTheGoCommandLooksFor(t *testing.T) {
	if got := (module{"m", "."}).tag("v1.0.0"); got != "v1.0.0" {
		t.Errorf("root: %s", got)
	}
	if got := (module{"m/cmd/x", "cmd/x"}).tag("v1.0.0"); got != "cmd/x/v1.0.0" {
		t.Errorf("nested: %s", got)
	}
}
