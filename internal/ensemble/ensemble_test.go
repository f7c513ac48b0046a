package ensemble

import (
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/quorum"
)

func mustParse(t testing.TB, text string) *Config {
	t.Helper()
	c, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestServersPrintAsApachePrintsThem(t *testing.T) {
	for line, want := range map[string]string{
		"127.0.0.1:2888:3888:participant;0.0.0.0:2181": "127.0.0.1:2888:3888:participant;0.0.0.0:2181",
		"zoo1:2888:3888":                           "zoo1:2888:3888:participant",
		"zoo1:2888:3888;":                          "zoo1:2888:3888:participant",
		"zoo1:2888:3888;;":                         "zoo1:2888:3888:participant",
		"zoo1:2888:3888;2181":                      "zoo1:2888:3888:participant;0.0.0.0:2181",
		"zoo1:2888:3888:OBSERVER;2181;":            "zoo1:2888:3888:observer;0.0.0.0:2181",
		"zoo1:2888:3888;10.0.0.1:2181;2182":        "zoo1:2888:3888:participant;10.0.0.1:2181;0.0.0.0:2182",
		"zoo1:2888:3888:participant;;1.2.3.4:2182": "zoo1:2888:3888:participant;;1.2.3.4:2182",
		"[::1]:2888:3888;[::]:2181":                "[0:0:0:0:0:0:0:1]:2888:3888:participant;[0:0:0:0:0:0:0:0]:2181",
		"[2A02:06B8::1:0]:2888:3888":               "[2a02:6b8:0:0:0:0:1:0]:2888:3888:participant",
		"[fe80::1%eth0]:2888:3888":                 "[fe80:0:0:0:0:0:0:1%eth0]:2888:3888:participant",
		"[::ffff:10.0.0.1]:2888:3888":              "10.0.0.1:2888:3888:participant",
		"[zoo1]:2888:3888":                         "zoo1:2888:3888:participant",
		"0.0.0.0:2888:3888":                        "0.0.0.0:2888:3888:participant",
		"b:1:2|a:3:4:observer":                     "a:3:4|b:1:2:observer",
		"a:2234:2236|a:1234:1236;1237":             "a:1234:1236|a:2234:2236:participant;0.0.0.0:1237",
		"a:1:2|a:1:2":                              "a:1:2:participant",
	} {
		m, err := ParseMember(1, line)
		if err != nil || m.String() != want {
			t.Errorf("%s:\n got %s, %v\nwant %s", line, m.String(), err, want)
		}
	}
}

func TestTextIsThatOfApache(t *testing.T) {
	c := mustParse(t, "# from a file\nversion=1F0000000a\n\nserver.3 = c:2888:3888:observer;2181\r\nserver.1: a:2888:3888;2181\nserver.2 b:2888:3888;2181")
	const want = "server.1=a:2888:3888:participant;0.0.0.0:2181\n" +
		"server.2=b:2888:3888:participant;0.0.0.0:2181\n" +
		"server.3=c:2888:3888:observer;0.0.0.0:2181\n" +
		"version=1f0000000a"
	if c.Text() != want || c.Version != 0x1f0000000a {
		t.Errorf("got\n%s", c.Text())
	}
	if c.Member(3) == nil || !c.Member(3).Observer || c.Member(4) != nil {
		t.Error("members differ")
	}
}

func TestServersWithoutGroupsCountByTheirMajority(t *testing.T) {
	set := mustParse(t, "server.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\nserver.4=d:1:2:observer").Quorum()
	if !set.Enough(quorum.MakeIDs(1, 3)) || set.Enough(quorum.MakeIDs(2)) || set.Enough(quorum.MakeIDs(2, 4)) {
		t.Error("quorums differ")
	}
}

func TestGroupsCountByTheirWeight(t *testing.T) {
	var lines []string
	for _, id := range []string{"1", "2", "3", "4", "5"} {
		lines = append(lines, "server."+id+"=h"+id+":1:2")
	}
	servers := strings.Join(lines, "\n")
	c := mustParse(t, servers+"\nserver.6=h6:1:2:observer\ngroup.2=5:4\ngroup.1=1:2:3\nweight.3=0\nweight.6=7\nversion=5")
	if tail := "group.1=1:2:3\ngroup.2=4:5\nweight.1=1\nweight.2=1\nweight.3=0\nweight.4=1\nweight.5=1\nweight.6=7\nversion=5"; !strings.HasSuffix(c.Text(), tail) {
		t.Errorf("got\n%s", c.Text())
	}
	set := c.Quorum()
	if !set.Enough(quorum.MakeIDs(1, 2, 4, 5)) || set.Enough(quorum.MakeIDs(1, 2, 3, 4)) || set.Enough(quorum.MakeIDs(1, 3, 4, 5, 6)) {
		t.Error("quorums differ")
	}
	if len(set.Participants()) != 5 {
		t.Errorf("%v vote", set.Participants())
	}
}

// TestHostsThatDifferInCaseAreOne: case does not matter in host names, and hosts that are
// equal by Same are also equal as map keys.
func TestHostsThatDifferInCaseAreOne(t *testing.T) {
	if !mustParse(t, "server.1=Zoo1:1:2").Meets(mustParse(t, "server.1=other:1:2\nserver.2=zOO1:3:4")) {
		t.Error("a configuration whose host is written in another case has no host of the other one")
	}
	hosts := []string{"zoo1", "ZOO1", "zoo2", "fe80:0::1%eth0", "FE80::1%eth0", "::ffff:10.0.0.1", "10.0.0.1", "2001:DB8::1", "2001:db8:0:0:0:0:0:1"}
	for _, one := range hosts {
		for _, two := range hosts {
			a := mustParse(t, "server.1=["+one+"]:1:2").Members[0].Quorum[0]
			b := mustParse(t, "server.1=["+two+"]:1:2").Members[0].Quorum[0]
			if equal := a.place() == b.place(); equal != a.Same(b) {
				t.Errorf("%s and %s: Same says %v, their places %v", one, two, a.Same(b), equal)
			}
		}
	}
}
