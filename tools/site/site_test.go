package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func read1(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestSiteOfTheProject: every page exists, every link leads somewhere, and the search
// covers everything.
func TestSiteOfTheProject(t *testing.T) {
	dir := t.TempDir()
	lab := filepath.Join(dir, "lab")
	if err := write(filepath.Join(lab, "index.html"), []byte("lab")); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	for _, version := range []string{"v0.9.0", "v0.10.0", "dev"} {
		if n, err := build(options{root: "../..", out: out, version: version, lab: lab, runs: true}); err != nil || n < 60 {
			t.Fatalf("%d pages, %v", n, err)
		}
	}
	if list := read1(t, filepath.Join(out, "versions.js")); list != `window.siteVersions = ["v0.10.0","v0.9.0","dev"];`+"\n" {
		t.Errorf("versions: %s", list)
	}
	if lead := read1(t, filepath.Join(out, "index.html")); !strings.Contains(lead, "url=v0.10.0/index.html") {
		t.Errorf("the first page leads to %s", lead)
	}
	// A release, which contains the site, is built twice and compared.
	if read1(t, filepath.Join(out, "v0.9.0", "search.js")) != read1(t, filepath.Join(out, "dev", "search.js")) {
		t.Error("the same pages have another search in each build")
	}
	concepts := read1(t, filepath.Join(out, "dev", "docs", "concepts.html"))
	for _, want := range []string{`src="../lab/index.html#scenario=unfenced"`, `href="../docs/fencing.html"`, `id="the-late-write"`, `aria-current="page">Concepts`, `<html lang="en">`, `src="../../versions.js"`} {
		if !strings.Contains(concepts, want) {
			t.Errorf("concepts.html lacks %s", want)
		}
	}
	if strings.Contains(concepts, "LABORATORY") {
		t.Error("a run is not shown")
	}
	if zh := read1(t, filepath.Join(out, "dev", "docs", "zh-CN", "concepts.html")); !strings.Contains(zh, `<html lang="zh-CN">`) || !strings.Contains(zh, "在实验室中打开") {
		t.Error("the Chinese page is not Chinese")
	}
	if zh, after := read1(t, filepath.Join(out, "dev", "docs", "zh-CN", "concepts.html")), regexp.MustCompile(`\p{Han}[，。：；、]?\n\p{Han}`); after.MatchString(zh) {
		t.Errorf("a browser shows a blank where a line of Chinese ends: %q", after.FindString(zh))
	}
	lines, joined := read1(t, "../../docs/operations.md"), regexp.MustCompile(`[a-z]<(a|code)\b|</(a|code)>[a-z]`)
	if !regexp.MustCompile("[a-z]\n[`\\[]").MatchString(lines) {
		t.Error("no line of operations.md ends before a link or code")
	}
	if english := joined.FindAllString(read1(t, filepath.Join(out, "dev", "docs", "operations.html")), -1); len(english) > 0 {
		t.Errorf("lines of English are joined without a blank: %q", english)
	}
	var index []found
	text := strings.TrimSuffix(strings.TrimPrefix(read1(t, filepath.Join(out, "dev", "search.js")), "window.searchIndex = "), ";\n")
	if err := json.Unmarshal([]byte(text), &index); err != nil {
		t.Fatal(err)
	}
	wanted := map[string]bool{"docs/runbooks.html#zookeepernoleader": false, "docs/concepts.html#fencing-tokens": false, "index.html#": false}
	for _, f := range index {
		if key := f.Page + "#" + f.ID; wanted[key] || f.Text != "" {
			delete(wanted, key)
		}
	}
	for key := range wanted {
		t.Errorf("the search does not know %s", key)
	}
	for _, name := range []string{"lab/index.html", "docs/pictures/dashboard.png", "site.css", "site.js"} {
		if _, err := os.Stat(filepath.Join(out, "dev", name)); err != nil {
			t.Error(err)
		}
	}
}

// TestLinksThatLeadNowhereAreErrors, to a page, to a heading and to a picture.
func TestLinksThatLeadNowhereAreErrors(t *testing.T) {
	root := t.TempDir()
	old, oldBeside := menu, beside
	menu, beside = []section{{"One", "一", []string{"a.md", "d/README.md"}}}, nil
	defer func() { menu, beside = old, oldBeside }()
	for _, one := range []struct{ text, problem string }{
		{"[x](b.md)", "b.md"}, {"[x](d/README.md#two)", "no such heading"}, {"[x](#none)", "no such heading"}, {"![x](p.png)", "p.png"},
		{"[x](d/README.md#one) [y](d) [z](#a) [w](code.go) [v](https://example.org) [u](#here)\n\n<a id=\"here\"></a>", ""},
	} {
		for name, content := range map[string]string{"a.md": "# A\n\n" + one.text + "\n", "d/README.md": "# D\n\n## One\n", "code.go": "package x\n"} {
			if err := write(filepath.Join(root, name), []byte(content)); err != nil {
				t.Fatal(err)
			}
		}
		_, err := build(options{root: root, out: filepath.Join(root, "out"), version: "dev"})
		if one.problem == "" && err != nil || one.problem != "" && (err == nil || !strings.Contains(err.Error(), one.problem)) {
			t.Errorf("%s: %v", one.text, err)
		}
	}
	page := read1(t, filepath.Join(root, "out", "dev", "a.html"))
	for _, want := range []string{`href="d/index.html#one"`, `href="d/index.html"`, `href="#a"`, repository + "code.go"} {
		if !strings.Contains(page, want) {
			t.Errorf("a.html lacks %s:\n%s", want, page)
		}
	}
}

func TestAnchorsAreThoseOfTheReposHost(t *testing.T) {
	a := &anchors{map[string]bool{}, map[string]int{}}
	for title, want := range map[string]string{"A tree that differs": "a-tree-that-differs", "`up`: x.y, z!": "up-xy-z", "迟到的写入（一）": "迟到的写入一", "snake_case-2": "snake_case-2"} {
		if got := string(a.Generate([]byte(title), 0)); got != want {
			t.Errorf("%q: %q, want %q", title, got, want)
		}
	}
	if got := string(a.Generate([]byte("snake_case-2"), 0)); got != "snake_case-2-1" {
		t.Errorf("the second one of a name: %q", got)
	}
}
