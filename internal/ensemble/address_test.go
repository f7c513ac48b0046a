package ensemble

import (
	"strings"
	"testing"
)

func TestHostsHaveABound(t *testing.T) {
	for _, c := range []struct{ host, want string }{ // an empty want: refused
		{strings.Repeat("h", hostBytesMax), strings.Repeat("h", hostBytesMax)},
		{strings.Repeat("h", hostBytesMax+1), ""},
		{"", ""},
		{"!", "!"}, {"~", "~"}, // the first and the last character that prints
		{" ", ""}, {"\x7f", ""}, {"\t", ""}, {"é", ""},
		{"a[", ""}, {"a]", ""}, {"a|", ""}, {"a;", ""}, {"a,", ""}, {"a=", ""}, {`a"`, ""}, {`a\`, ""},
		{"10.0.0.1", "10.0.0.1"},
		{"::ffff:10.0.0.1", "10.0.0.1"},
		{"::ffff:10.0.0.1%eth0", "0:0:0:0:0:ffff:a00:1%eth0"}, // IPv4 has no zones
		{"::a00:1", "0:0:0:0:0:0:a00:1"},
		{"10.0.0.256", "10.0.0.256"}, // a name
		{"a::b::c", ""},
	} {
		if got, err := hostOf(c.host); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%.20q: %.40q, %v; want %.40q", c.host, got, err, c.want)
		}
	}
}

func TestHostsAreTheSame(t *testing.T) {
	for _, c := range []struct {
		one, two string
		want     bool
	}{
		{"zoo1", "ZOO1", true},
		{"zoo1", "zoo2", false}, // neither is an address
		{"zoo1", "10.0.0.1", false},
		{"", "0.0.0.0", false},
		{"10.0.0.1", "10.0.0.2", false},
		{"::ffff:10.0.0.1", "10.0.0.1", true},
		{"::1", "0:0:0:0:0:0:0:1", true},
		{"::1", "::2", false},
	} {
		one, two := Address{c.one, 1}, Address{c.two, 2}
		if one.Same(two) != c.want || two.Same(one) != c.want {
			t.Errorf("%q and %q: %v, %v; want %v", c.one, c.two, one.Same(two), two.Same(one), c.want)
		}
	}
}

func TestConfigurationsMeetAtAHost(t *testing.T) {
	const one = "server.1=a:1:2\nserver.2=b:1:2"
	for other, want := range map[string]bool{
		"server.7=c:1:2\nserver.8=B:5:6": true,
		"server.1=c:1:2\nserver.2=d:1:2": false,
		"server.7=c:1:2;a:5":             false, // where clients connect does not count
	} {
		c, d := mustParse(t, one), mustParse(t, other)
		if c.Meets(d) != want || d.Meets(c) != want {
			t.Errorf("%q: %v, %v; want %v", other, c.Meets(d), d.Meets(c), want)
		}
	}
}
