package arch

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A refusal is an occurrence of a refused word in a text.
type refusal struct {
	line          int
	word, instead string
}

// vocabulary is the table of words, indexed by the first word of each phrase.
type vocabulary struct {
	refused map[string][]phrase
	allowed map[string][]phrase
}

// phrase is a sequence of words.
type phrase struct {
	words   []string
	instead string
}

// newVocabulary makes a vocabulary from a table.
func newVocabulary(table []word) *vocabulary {
	v := &vocabulary{refused: map[string][]phrase{}, allowed: map[string][]phrase{}}
	for _, w := range table {
		for text := range strings.SplitSeq(w.refused, ", ") {
			fields := strings.Fields(text)
			v.refused[fields[0]] = append(v.refused[fields[0]], phrase{fields, w.instead})
		}
		for _, a := range w.allowed {
			fields := strings.Fields(a.phrase)
			v.allowed[fields[0]] = append(v.allowed[fields[0]], phrase{words: fields})
		}
	}
	return v
}

// wordAt is a word of a text with its line.
type wordAt struct {
	text string
	line int
}

// wordsOf returns the words of a text in lower case. An identifier is split into its words.
// Only letters and digits count.
func wordsOf(text string) []wordAt {
	var all []wordAt
	line, start := 1, -1
	end := func(at int) {
		if start >= 0 {
			all = append(all, wordAt{strings.ToLower(text[start:at]), line})
		}
		start = -1
	}
	for i := range len(text) {
		c := text[i]
		upper := 'A' <= c && c <= 'Z'
		switch {
		case 'a' <= c && c <= 'z' || upper || '0' <= c && c <= '9' || c >= 0x80:
			acronymEnds := i+1 < len(text) && 'a' <= text[i+1] && text[i+1] <= 'z'
			if upper && start >= 0 && (text[i-1] < 'A' || text[i-1] > 'Z' || acronymEnds) {
				end(i)
			}
			if start < 0 {
				start = i
			}
		default:
			end(i)
			if c == '\n' {
				line++
			}
		}
	}
	end(len(text))
	return all
}

// check returns the refused words of a text.
func (v *vocabulary) check(text string) []refusal {
	var found []refusal
	all := wordsOf(text)
	for i, skip := 0, 0; i < len(all); i++ {
		if p, is := match(v.allowed[all[i].text], all[i:]); is {
			skip = max(skip, i+len(p.words))
		}
		if p, is := match(v.refused[all[i].text], all[i:]); is && i >= skip {
			found = append(found, refusal{all[i].line, strings.Join(p.words, " "), p.instead})
		}
	}
	return found
}

// match returns the phrase with which a text begins.
func match(phrases []phrase, text []wordAt) (phrase, bool) {
	for _, p := range phrases {
		if len(p.words) <= len(text) && slices.EqualFunc(p.words, text[:len(p.words)], func(w string, t wordAt) bool { return w == t.text }) {
			return p, true
		}
	}
	return phrase{}, false
}

// checkedText reports whether the words of a file are checked: code, documents and stories.
func checkedText(path string) bool {
	switch filepath.Ext(path) {
	case ".go", ".md", ".txt", ".txtar", ".json", ".java", ".py", ".c", ".yaml", ".svg", ".service", ".conf", ".properties", ".xml":
		return true
	}
	return filepath.Base(path) == "Makefile"
}

// noSubject finds sentences such as "Who polls receives nothing", as opposed to questions,
// which end with a question mark.
var noSubject = regexp.MustCompile(`(?m)(?:^[\s/#*|]*|[.:] )Who(?:\s|//|#)+[a-z][^.?]*\.`)

func TestOneVocabulary(t *testing.T) {
	v := newVocabulary(words)
	refusals, files := 0, 0
	eachText(t, func(file, text string) {
		if file == "internal/arch/words_test.go" || file == "internal/arch/vocabulary_test.go" {
			return // they have all of them
		}
		files++
		for _, at := range noSubject.FindAllStringIndex(text, -1) {
			t.Errorf("%s:%d: %q: name the subject, a client or a server that does it", file,
				1+strings.Count(text[:at[1]], "\n"), text[at[0]:at[1]])
		}
		for _, r := range v.check(file + "\n" + text) {
			refusals++
			if refusals <= 200 {
				t.Errorf("%s:%d: %q: write %s", file, r.line-1, r.word, r.instead)
			}
		}
	})
	if refusals > 0 {
		t.Errorf("%d refused words; the glossary has the others", refusals)
	}
	if files < 1000 {
		t.Errorf("%d files were looked at, where are the others?", files)
	}
}

// eachText calls a function for every file whose words are checked.
func eachText(t *testing.T, f func(file, text string)) {
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() {
			if path != root && (strings.HasPrefix(name, ".") || slices.Contains([]string{"bin", "tmp", "target", "node_modules"}, name)) {
				return fs.SkipDir
			}
			return nil
		}
		if !checkedText(path) {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f(filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator))), string(text))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestEachRefusedWordIsFound puts words into texts of each kind, and checks the allowed
// phrases.
func TestEachRefusedWordIsFound(t *testing.T) {
	v := newVocabulary([]word{
		{"in line", "waiting", nil},
		{"beat, beats", "heartbeat", []allowance{{"json beat", "a format"}}},
		{"whoever", "a client that", nil},
	})
	for text, want := range map[string]string{
		"// It waits in line.":                  "1 in line",
		"// The next in\n\t// line leads.":      "1 in line",
		"x := c.inLine[0]":                      "1 in line",
		"func TestABeatIsLate(":                 "1 beat",
		"first\nsecond has beatMs":              "2 beat",
		"Whoever comes, a Beat":                 "1 whoever; 1 beat",
		"MAX_BEATS = 3":                         "1 beats",
		"| a table | in line |":                 "1 in line",
		"inline, heartbeat, upbeat, begin line": "",
		"Beat int `json:\"beat\"`":              "1 beat",
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
	for text, want := range map[string]bool{
		"// Who polls receives it.": true, "It does. Who\n// waits is woken.": true, "// Who leads? Nobody.": false, "| Who |": false,
	} {
		if noSubject.MatchString(text) != want {
			t.Errorf("%q: a sentence without a subject is found: %t", text, !want)
		}
	}
	for _, w := range words {
		for text := range strings.SplitSeq(w.refused, ", ") {
			if found := newVocabulary(words).check("It is the " + text + " of it."); len(found) == 0 {
				t.Errorf("%q is not found", text)
			}
		}
		for _, a := range w.allowed {
			if a.why == "" || len(newVocabulary([]word{w}).check(a.phrase)) > 0 {
				t.Errorf("%q is allowed without a reason, or refused", a.phrase)
			}
		}
	}
}
