package shell

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// javas matches arguments as zkCli.sh finds them. It also finds one that begins with a
// blank, before a quote without a partner; this is a mistake in zkCli.sh, and is not an
// argument here.
var javas = regexp.MustCompile("[ \\t\\n\\v\\f\\r]*([^\"'][^ \\t\\n\\v\\f\\r]*|\"[^\"]*\"|'[^']*')[ \\t\\n\\v\\f\\r]*")

func splitAsJava(line string) (args []string, slip bool) {
	for _, m := range javas.FindAllStringSubmatch(line, -1) {
		arg := m[1]
		if strings.IndexByte(blanks, arg[0]) >= 0 {
			slip = slip || strings.Trim(arg, blanks) != ""
			continue
		}
		if c := arg[0]; (c == '"' || c == '\'') && len(arg) > 1 && arg[len(arg)-1] == c {
			arg = arg[1 : len(arg)-1]
		}
		args = append(args, arg)
	}
	return args, slip
}

func TestLinesAreSplitAsZKCliSplitsThem(t *testing.T) {
	for line, want := range map[string][]string{
		"":                      nil,
		"  get  /a\t-s ":        {"get", "/a", "-s"},
		`set /a "b c" 'd "e"'`:  {"set", "/a", "b c", `d "e"`},
		`set /a ""`:             {"set", "/a", ""},
		`create /a"b c" x`:      {"create", `/a"b`, `c"`, "x"},
		`get "/a`:               {"get", "/a"},
		`set /a "b"c`:           {"set", "/a", "b", "c"},
		`set /a b\ c`:           {"set", "/a", `b\`, "c"},
		`set /a 'it''s'`:        {"set", "/a", "it", "s"},
		"set /é \"中 文\"":        {"set", "/é", "中 文"},
		`create /a {"x":"y z"}`: {"create", "/a", `{"x":"y`, `z"}`},
	} {
		if got := Split(line); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
		if java, _ := splitAsJava(line); !slices.Equal(java, want) {
			t.Errorf("%q: zkCli.sh's expression finds %q", line, java)
		}
	}
}

func FuzzSplit(f *testing.F) {
	for _, line := range []string{`set /a "b c" 'd'`, `a'b`, `"`, `'"'`, "a\"b c\"", "  ' x", "\v'a b'c"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		got := Split(line)
		if want, slip := splitAsJava(line); !slip && !slices.Equal(got, want) {
			t.Errorf("%q: %q, and zkCli.sh %q", line, got, want)
		}
		text, quote, start := unfinished(line)
		if start > len(line) || start < len(line) && strings.TrimPrefix(line[start:], string(quote)) != text && quote != 0 {
			t.Errorf("%q: %q is unfinished at %d", line, text, start)
		}
		if before := Split(line[:start]); text != "" && quote == 0 && !slices.Equal(append(before, text), got) {
			t.Errorf("%q: %q and then %q", line, before, text)
		}
		_ = Kept(line)
	})
}
