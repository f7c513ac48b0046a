package zoocfg

import (
	"fmt"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/vfs"
)

// With the mark in front, a key would be a different, unknown key.
func TestByteOrderMarkIsRefused(t *testing.T) {
	for _, text := range []string{"\ufefftickTime=2000\n", "\xff\xfet\x00i\x00", "\xfe\xff\x00t\x00i"} {
		if _, err := Parse("zoo.cfg", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), "zoo.cfg:1: begins with a byte order mark") {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{"\ufeff# of the ensemble\ntickTime=2000\n", "\ufeff\r\ntickTime=2000\n"} {
		if entries, err := Parse("zoo.cfg", []byte(text)); err != nil || len(entries) != 1 || entries[0].Key != "tickTime" {
			t.Errorf("%q: %+v, %v", text, entries, err)
		}
	}
}

// The results of java.util.Properties.load were determined with OpenJDK 17.
func TestSyntaxIsThatOfJavaProperties(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"separators", "a=1\nb:2\nc 3\nd\t=\t4\ne : 5\n", "1 a=1|2 b=2|3 c=3|4 d=4|5 e=5"},
		{"second separator is value", "a==1\nb=:2\nc : : 3\n", "1 a==1|2 b=:2|3 c=: 3"},
		{"comments and blank lines", "# a=1\n  ! b=2\n\n \t\nc=3 # not a comment\n", "5 c=3 # not a comment"},
		{"continued lines", "a=1 \\\n   2\nb=3\\\\\nc=4\n", "1 a=1 2|3 b=3\\|4 c=4"},
		{"comment is not continued", "# a \\\nb=2\n", "2 b=2"},
		{"blank line ends a continued one", "a=1\\\n\nb=2\n", "1 a=1|3 b=2"},
		{"comment sign in a continued line", "a=1\\\n#2\n", "1 a=1#2"},
		{"line ends", "a=1\rb=2\r\nc=3", "1 a=1|2 b=2|3 c=3"},
		{"no value", "a\nb=\n", "1 a=|2 b="},
		{"escapes", `a=\t1\n\u0041\:\q` + "\n" + `k\ 1\=x=2`, "1 a=1\nA:q|2 k 1=x=2"},
		{"surrogates", `a=\ud83d\ude00`, "1 a=\U0001F600"},
		{"bytes are ISO-8859-1", "a=\xe9\n", "1 a=\u00e9"},
		{"backslash at the end", "a=1\\", "1 a=1"},
		{"only a backslash", "\\\n", ""},
		{"trimmed", "  a  =  1  \n", "1 a=1"},
	} {
		entries, err := Parse("f", []byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var got []string
		for _, e := range entries {
			got = append(got, fmt.Sprintf("%d %s=%s", e.Line, e.Key, e.Value))
		}
		if text := strings.Join(got, "|"); text != c.want {
			t.Errorf("%s: %q, want %q", c.name, text, c.want)
		}
	}
}

func TestBadEscapeNamesItsLine(t *testing.T) {
	for text, want := range map[string]string{
		"a=1\nb=\\u12":    `f:2: \u in "\\u12": want four hexadecimal digits`,
		"a=1\nb=\\u12xy ": `f:2: \u12xy: want four hexadecimal digits`,
	} {
		if _, err := Parse("f", []byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func FuzzFile(f *testing.F) {
	f.Add([]byte("dataDir=/var/zk\nclientPort=2181\nserver.1=a:1:2;3\n"))
	f.Add([]byte("a\\\n b \\u0041 = \\\\\r\n!c\nautopurge.purgeInterval=9h\njute.maxbuffer=0x100\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		entries, err := Parse("f", text)
		if err != nil {
			return
		}
		for i, e := range entries {
			if e.Line < 1 || i > 0 && e.Line <= entries[i-1].Line {
				t.Fatalf("entry %d is on line %d", i, e.Line)
			}
		}
		config, err := Read(entries, vfs.NewMem())
		if err == nil && (config.Server.DataDir == "" || config.Server.ClientAddr == "") {
			t.Fatal("a configuration without directory or port was taken")
		}
	})
}
