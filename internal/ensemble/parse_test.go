package ensemble

import (
	"strings"
	"testing"
)

func TestMistakesAreNamedWithTheirLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                                          "ensemble: 0 servers and no participant among them: nobody could vote",
		"server.1=a:1:2:observer":                   "ensemble: 1 servers and no participant among them: nobody could vote",
		"server.x=a:1:2":                            `ensemble: line 1: server.x: "x" is not the number of a server: not a number`,
		"server.-1=a:1:2":                           `ensemble: line 1: server.-1: "-1" is not the number of a server: not a number`,
		"server.9223372036854775807=a:1:2":          `ensemble: line 1: server.9223372036854775807: "9223372036854775807" is not the number of a server: not a number`,
		"server.1=a:1:2\nserver.2":                  `ensemble: line 2: server.2: "": want host:quorumPort:electionPort[:participant|observer]: 1 parts`,
		"server.1=a:1":                              `ensemble: line 1: server.1: "a:1": want host:quorumPort:electionPort[:participant|observer]: 2 parts`,
		"server.1=a:1:2:participant:3":              `ensemble: line 1: server.1: "a:1:2:participant:3": want host:quorumPort:electionPort[:participant|observer]: 5 parts`,
		"server.1=a:1:2:leader":                     `ensemble: line 1: server.1: "a:1:2:leader": want host:quorumPort:electionPort[:participant|observer]: "leader" is not a role`,
		"server.1=a:1:1":                            `ensemble: line 1: server.1: "a:1:1": want host:quorumPort:electionPort[:participant|observer]: the quorum port must not be the election port`,
		"server.1=a:0:1":                            `ensemble: line 1: server.1: "a:0:1": want host:quorumPort:electionPort[:participant|observer]: "0" is not a port from 1 to 65535`,
		"server.1=a:1:65536":                        `ensemble: line 1: server.1: "a:1:65536": want host:quorumPort:electionPort[:participant|observer]: "65536" is not a port from 1 to 65535`,
		"server.1=:1:2":                             `ensemble: line 1: server.1: ":1:2": want host:quorumPort:electionPort[:participant|observer]: a host of 0 bytes is not 1 to 320`,
		"server.1=a b:1:2":                          `ensemble: line 1: server.1: "a b:1:2": want host:quorumPort:electionPort[:participant|observer]: ' ' cannot be in the name of a host`,
		"server.1=[::1:1:2":                         `ensemble: line 1: server.1: "[::1:1:2": want host:quorumPort:electionPort[:participant|observer]: "[::1:1:2" has no ]: after its [`,
		"server.1=[a:b]:1:2":                        `ensemble: line 1: server.1: "[a:b]:1:2": want host:quorumPort:electionPort[:participant|observer]: "a:b" is no IPv6 address`,
		"server.1=a:1:2:observer|b:1:2:participant": `ensemble: line 1: server.1: "a:1:2:observer|b:1:2:participant": one server cannot be observer and participant`,
		"server.1=a:1:2|a:1:3":                      `ensemble: line 1: server.1: "a:1:2|a:1:3": one address cannot stand for two`,
		"server.1=a:1:2;3;4;5":                      `ensemble: line 1: server.1: "a:1:2;3;4;5": more than two ;`,
		"server.1=a:1:2;x":                          `ensemble: line 1: server.1: client address "x": "x" is not a port from 1 to 65535`,
		"server.1=a:1:2;b:c:3":                      `ensemble: line 1: server.1: client address "b:c:3": want [host:]port`,
		"server.1=a:1:2;[::1:3":                     `ensemble: line 1: server.1: client address "[::1:3": want [host:]port`,
		"server.1=a:1:2;:3":                         `ensemble: line 1: server.1: client address ":3": a host of 0 bytes is not 1 to 320`,
		"version=x":                                 `ensemble: line 1: version: "x" is not a number in hexadecimal`,
		"version=-1":                                `ensemble: line 1: version: "-1" is not a number in hexadecimal`,
		"clientPort=2181":                           "ensemble: line 1: clientPort: is not server.N, group.N, weight.N or version",
		"group.1=1:x":                               `ensemble: line 1: group.1: "x" is not a number: want the numbers of servers with : between`,
		"weight.1=x":                                `ensemble: line 1: weight.1: "x" is not a number`,
		"weight.1=-1":                               "ensemble: line 1: weight.1: weight -1 is not from 0 to 1099511627776",
		"server.1=a:1:2\nweight.1=1":                "ensemble: server 1 is in no group: with group or weight lines each participant must be",
		"server.1=a:1:2\ngroup.1=1\nweight.1=0":     "ensemble: all weights are 0, so no quorum is possible",
		"server.1=a:1:2\ngroup.1=1:2":               "ensemble: group 1 names server 2, which is no participant",
		"server.1=a:1:2\ngroup.1=1\ngroup.2=1":      "ensemble: server 1 is in group 1 and in group 2",
		strings.Repeat("#", TextBytesMax+1):         "ensemble: a configuration of 524289 bytes is longer than 524288",
	} {
		if _, err := Parse(text); err == nil || err.Error() != want {
			t.Errorf("%.60q:\n got %v\nwant %s", text, err, want)
		}
	}
}

func TestTheLastLineOfAKeyCounts(t *testing.T) {
	c := mustParse(t, "server.1=a:1:2\nserver.1=b:1:2\ngroup.1=9\ngroup.1=1\nweight.1=2\nweight.1=3\n")
	if want := "server.1=b:1:2:participant\ngroup.1=1\nweight.1=3\nversion=0"; c.Text() != want {
		t.Errorf("got\n%s", c.Text())
	}
}

func TestConfigurationsAreComparedWithoutTheirVersion(t *testing.T) {
	base := mustParse(t, "server.1=[::1]:1:2;2181\nserver.2=b:1:2\nserver.3=c:1:2:observer\ngroup.1=1:2\nversion=5")
	if later := base.WithVersion(6); !base.Equal(later) || later.Version != 6 || base.Version != 5 {
		t.Error("versions differ")
	}
	for _, c := range []struct {
		name, other      string
		equal, samePeers bool
	}{
		{"written in another way", "server.3=c:1:2:observer\nserver.2=b:1:2\nserver.1=[0::1]:1:2;0.0.0.0:2181\ngroup.1=2:1\nweight.2=1", true, true},
		{"another client port", "server.1=[::1]:1:2;2182\nserver.2=b:1:2\nserver.3=c:1:2:observer\ngroup.1=1:2", false, true},
		{"a port for TLS", "server.1=[::1]:1:2;2181;2182\nserver.2=b:1:2\nserver.3=c:1:2:observer\ngroup.1=1:2", false, true},
		{"no client port", "server.1=[::1]:1:2\nserver.2=b:1:2\nserver.3=c:1:2:observer\ngroup.1=1:2", false, true},
		{"another role", "server.1=[::1]:1:2;2181\nserver.2=b:1:2\nserver.3=c:1:2\ngroup.1=1:2:3", false, false},
		{"another number", "server.1=[::1]:1:2;2181\nserver.2=b:1:2\nserver.4=c:1:2:observer\ngroup.1=1:2", false, false},
		{"another quorum port", "server.1=[::1]:3:2;2181\nserver.2=b:1:2\nserver.3=c:1:2:observer\ngroup.1=1:2", false, false},
		{"another election port", "server.1=[::1]:1:3;2181\nserver.2=b:1:2\nserver.3=c:1:2:observer\ngroup.1=1:2", false, false},
		{"other groups", "server.1=[::1]:1:2;2181\nserver.2=b:1:2\nserver.3=c:1:2:observer\ngroup.1=1\ngroup.2=2", false, false},
		{"another weight", "server.1=[::1]:1:2;2181\nserver.2=b:1:2\nserver.3=c:1:2:observer\ngroup.1=1:2\nweight.1=2", false, false},
		{"no groups", "server.1=[::1]:1:2;2181\nserver.2=b:1:2\nserver.3=c:1:2:observer", false, false},
		{"fewer servers", "server.1=[::1]:1:2;2181\nserver.2=b:1:2\ngroup.1=1:2", false, false},
	} {
		other := mustParse(t, c.other)
		if base.Equal(other) != c.equal || other.Equal(base) != c.equal {
			t.Errorf("%s: equal", c.name)
		}
		if base.SamePeers(other) != c.samePeers || other.SamePeers(base) != c.samePeers {
			t.Errorf("%s: the same peers", c.name)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"server.1=127.0.0.1:2888:3888:participant;0.0.0.0:2181\nversion=100000000",
		"server.1=[::1]:1:2|b:1:2:observer;;[fe80::1%eth0]:3\nserver.2 : a:1:2;1;2",
		"server.1=a:1:2\nserver.2=b:1:2\ngroup.1=1\ngroup.7=2\nweight.2=0\nweight.9=4\nversion=f",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(c.Text())
		if err != nil || again.Text() != c.Text() || !again.Equal(c) || again.Version != c.Version {
			t.Fatalf("E2: %q became\n%s\nand that %v", text, c.Text(), err)
		}
		if len(c.Quorum().Participants()) == 0 {
			t.Fatalf("E1: nobody votes in %q", text)
		}
	})
}
