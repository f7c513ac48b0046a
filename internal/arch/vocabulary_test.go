package arch

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A refusal is a word of the table that stands in a text.
type refusal struct {
	line          int
	word, instead string
}

// vocabulary is the table, compiled.
type vocabulary struct {
	all     *regexp.Regexp // any refused word
	refused []*regexp.Regexp
	allowed []*regexp.Regexp // nil for none
	instead []string
}

// compile makes a vocabulary of a table.
func compile(table []word) *vocabulary {
	whole := func(alternatives string) string {
		return `(?i)(?:^|[^a-z0-9])(` + strings.ReplaceAll(alternatives, " ", `\s+`) + `)(?:$|[^a-z0-9])`
	}
	v := &vocabulary{}
	var all []string
	for _, w := range table {
		var allowed *regexp.Regexp
		if len(w.allowed) > 0 {
			phrases := slices.Sorted(maps.Keys(w.allowed))
			allowed = regexp.MustCompile(`(?i)` + strings.ReplaceAll(strings.Join(phrases, "|"), " ", `\s+`))
		}
		v.refused = append(v.refused, regexp.MustCompile(whole(w.refused)))
		v.allowed = append(v.allowed, allowed)
		v.instead = append(v.instead, w.instead)
		all = append(all, w.refused)
	}
	v.all = regexp.MustCompile(whole(strings.Join(all, "|")))
	return v
}

var (
	commentMark = regexp.MustCompile(`(?m)^[ \t]*(//|#|>)[ \t]*`)
	humps       = regexp.MustCompile(`([a-z0-9])([A-Z])`)
)

// check returns the refused words of a text, in the order of the table.
func (v *vocabulary) check(text string) []refusal {
	text = humps.ReplaceAllString(commentMark.ReplaceAllString(text, ""), "$1 $2")
	text = strings.ReplaceAll(text, "_", " ")
	if !v.all.MatchString(text) {
		return nil
	}
	var found []refusal
	for i, refused := range v.refused {
		rest := text
		if v.allowed[i] != nil {
			rest = v.allowed[i].ReplaceAllStringFunc(text, func(phrase string) string {
				return strings.Map(func(r rune) rune {
					if r == '\n' {
						return r
					}
					return '.'
				}, phrase)
			})
		}
		for at := 0; at < len(rest); {
			m := refused.FindStringSubmatchIndex(rest[at:])
			if m == nil {
				break
			}
			line := 1 + strings.Count(rest[:at+m[2]], "\n")
			found = append(found, refusal{line, strings.Join(strings.Fields(rest[at+m[2]:at+m[3]]), " "), v.instead[i]})
			at += m[3]
		}
	}
	return found
}

// checkedText reports whether the words of a file are looked at: code, documents
// and stories; not these tests' table, which has all of them.
func checkedText(path string) bool {
	switch filepath.Ext(path) {
	case ".go", ".md", ".txt", ".txtar":
		return filepath.Base(path) != "words_test.go" && filepath.Base(path) != "vocabulary_test.go"
	}
	return filepath.Base(path) == "Makefile"
}

func TestOneVocabulary(t *testing.T) {
	v := compile(words)
	refusals, files, left := 0, 0, map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, rel := d.Name(), filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator)))
		if d.IsDir() {
			if path != root && (strings.HasPrefix(name, ".") || slices.Contains([]string{"bin", "tmp", "target", "node_modules"}, name)) {
				return fs.SkipDir
			}
			return nil
		}
		if !checkedText(path) {
			return nil
		}
		files++
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, r := range v.check(rel + "\n" + string(text)) {
			if dir, excused := unconvertedDir(rel); excused {
				left[dir] = true
				break
			}
			refusals++
			if refusals <= 200 {
				t.Errorf("%s:%d: %q: write %s", rel, r.line-1, r.word, r.instead)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if refusals > 0 {
		t.Errorf("%d refused words; the glossary has the others", refusals)
	}
	if files < 1000 {
		t.Errorf("%d files were looked at, where are the others?", files)
	}
	for _, dir := range unconverted {
		if !left[dir] {
			t.Errorf("%s has no refused word any more: take it out of the list", dir)
		}
	}
}

// unconvertedDir returns the entry of the list that a file is below.
func unconvertedDir(path string) (string, bool) {
	for _, dir := range unconverted {
		if path == dir || strings.HasPrefix(path, dir+"/") {
			return dir, true
		}
	}
	return "", false
}

// TestEachRefusedWordIsFound plants words in texts of each kind, and the phrases
// that are allowed.
func TestEachRefusedWordIsFound(t *testing.T) {
	v := compile([]word{
		{`in line`, "waiting", nil},
		{`beats?`, "heartbeat", map[string]string{`json:"beat"`: "a format"}},
		{`whoever`, "a client that", nil},
	})
	for text, want := range map[string]string{
		"// It waits in line.":                  "1 in line",
		"// The next in\n\t// line leads.":      "1 in line",
		"x := c.inLine[0]":                      "1 in Line",
		"first\nsecond has beatMs":              "2 beat",
		"Whoever comes, a Beat":                 "1 Beat; 1 Whoever",
		"MAX_BEATS = 3":                         "1 BEATS",
		"| a table | in line |":                 "1 in line",
		"inline, heartbeat, upbeat, begin line": "",
		"Beat int `json:\"beat\"`":              "1 Beat",
		"X int `json:\"beat\"`":                 "",
	} {
		var got []string
		for _, r := range v.check(text) {
			got = append(got, fmt.Sprintf("%d %s", r.line, r.word))
		}
		if strings.Join(got, "; ") != want {
			t.Errorf("%q: %q, expected %q", text, strings.Join(got, "; "), want)
		}
	}
	for _, w := range words {
		if _, err := regexp.Compile(w.refused); err != nil || w.instead == "" {
			t.Errorf("%q: %v", w.refused, err)
		}
		for phrase, why := range w.allowed {
			if why == "" {
				t.Errorf("%q is allowed without a reason", phrase)
			}
		}
	}
}
