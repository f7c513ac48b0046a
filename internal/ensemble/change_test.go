package ensemble

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/zk"
)

const three = "server.1=10.0.0.1:2888:3888;2181\nserver.2=10.0.0.2:2888:3888;2181\nserver.3=10.0.0.3:2888:3888;2181\nversion=100000000"

const (
	line1 = "server.1=10.0.0.1:2888:3888:participant;0.0.0.0:2181\n"
	line2 = "server.2=10.0.0.2:2888:3888:participant;0.0.0.0:2181\n"
	line3 = "server.3=10.0.0.3:2888:3888:participant;0.0.0.0:2181\n"
	end   = "version=0"
)

const (
	named1 = "server.1=h1:1:2;h1:2181,"
	named2 = "server.2=h2:1:2;h2:2181,"
)

var named = strings.ReplaceAll(named1+named2, ",", "\n") + "server.3=h3:1:2;h3:2181\nversion=100000000"

// ask returns a reconfig; "-" is a list that is not given.
func ask(joining, leaving, members string) *zk.Reconfig {
	given := func(text string) *string {
		if text == "-" {
			return nil
		}
		return &text
	}
	return &zk.Reconfig{Joining: given(joining), Leaving: given(leaving), NewMembers: given(members), ConfigID: -1}
}

func TestReconfigMakes(t *testing.T) {
	for _, c := range []struct{ name, joining, leaving, members, want string }{
		{"nothing new", "-", "-", "-", line1 + line2 + line3 + end},
		{"nothing new, of empty lists", "", " , ", "-", line1 + line2 + line3 + end},
		{"one server less", "-", "3", "-", line1 + line2 + end},
		{"one server less that was none", "-", "9, 3", "-", line1 + line2 + end},
		{"one server more", "server.4=d:1:2;3", "-", "-", line1 + line2 + line3 + "server.4=d:1:2:participant;0.0.0.0:3\n" + end},
		{"one more by its bare number", " 4 = d:1:2;3 ", "-", "-", line1 + line2 + line3 + "server.4=d:1:2:participant;0.0.0.0:3\n" + end},
		{"one more with a sign twice", "server.4==d:1:2;3", "-", "-", line1 + line2 + line3 + "server.4=d:1:2:participant;0.0.0.0:3\n" + end},
		{"another case of its own name", "server.4=d:1:2;3,server.4=D:1:2;3", "-", "-", line1 + line2 + line3 + "server.4=D:1:2:participant;0.0.0.0:3\n" + end},
		{"another in place of one", "server.3=d:1:2;3", "3", "-", line1 + line2 + "server.3=d:1:2:participant;0.0.0.0:3\n" + end},
		{"the place of one that left", "server.4=10.0.0.3:2888:3888;2181", "3", "-", line1 + line2 + "server.4=10.0.0.3:2888:3888:participant;0.0.0.0:2181\n" + end},
		{"the place of one that moves", "server.3=d:1:2;3,server.4=10.0.0.3:2888:3888;2181", "-", "-", line1 + line2 + "server.3=d:1:2:participant;0.0.0.0:3\nserver.4=10.0.0.3:2888:3888:participant;0.0.0.0:2181\n" + end},
		{"a participant that becomes an observer", "server.3=10.0.0.3:2888:3888:observer;2181", "-", "-", line1 + line2 + "server.3=10.0.0.3:2888:3888:observer;0.0.0.0:2181\n" + end},
		{"two at once", "server.4=d:1:2;3,server.5=e:1:2:observer;3", "1", "-", line2 + line3 + "server.4=d:1:2:participant;0.0.0.0:3\nserver.5=e:1:2:observer;0.0.0.0:3\n" + end},
		{"addresses of the loopback and of all", "server.4=localhost:2888:3888;2181,server.5=localhost:2888:3888;127.0.0.1:2181,server.6=f:1:2;127.0.0.1:2181", "1", "-",
			line2 + line3 + "server.4=localhost:2888:3888:participant;0.0.0.0:2181\nserver.5=localhost:2888:3888:participant;127.0.0.1:2181\nserver.6=f:1:2:participant;127.0.0.1:2181\n" + end},
		{"a whole list", "-", "-", "server.7=a:1:2;3,server.8=b:1:2", "server.7=a:1:2:participant;0.0.0.0:3\nserver.8=b:1:2:participant\n" + end},
		{"a whole list by lines, others ignored", "server.9=x:1:2;3", "7", "server.7=a:1:2\nserver.8=b:1:2\nversion=77", "server.7=a:1:2:participant\nserver.8=b:1:2:participant\n" + end},
		{"groups", "-", "-", "server.1=a:1:2,server.2=b:1:2,group.1=1:2,weight.2=3", "server.1=a:1:2:participant\nserver.2=b:1:2:participant\ngroup.1=1:2\nweight.1=1\nweight.2=3\n" + end},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := mustParse(t, three)
			next, code, _ := before.Change(ask(c.joining, c.leaving, c.members), Rules{ParticipantsMin: 2})
			if code != zk.OK || next.Text() != c.want {
				t.Errorf("%v\n%s", code, next.Text())
			}
			if before.Text() != mustParse(t, three).Text() {
				t.Error("the old configuration has changed")
			}
		})
	}
}

func TestReconfigIsRefused(t *testing.T) {
	for _, c := range []struct {
		name, joining, leaving, members string
		want                            zk.Code
	}{
		{"one participant left", "-", "2,3", "-", zk.ErrBadArguments},
		{"nobody left", "-", "1,2,3", "-", zk.ErrBadArguments},
		{"an empty list", "-", "-", "", zk.ErrBadArguments},
		{"observers alone", "-", "-", "server.1=a:1:2:observer,server.2=b:1:2:observer", zk.ErrBadArguments},
		{"no number that leaves", "-", "server.3", "-", zk.ErrMarshalling},
		{"no number that joins", "server.x=d:1:2;3", "-", "-", zk.ErrMarshalling},
		{"no number in the list", "-", "-", "server.x=d:1:2;3", zk.ErrMarshalling},
		{"no client port", "server.4=d:1:2", "-", "-", zk.ErrBadArguments},
		{"no election port", "server.4=d:1;3", "-", "-", zk.ErrBadArguments},
		{"no value", "server.4", "-", "-", zk.ErrBadArguments},
		{"a port for clients out of range", "server.4=d:1:2;65536", "-", "-", zk.ErrBadArguments},
		{"an address that one that joins has, too", "server.4=d:1:2;3,server.5=e:1:2;d:1", "-", "-", zk.ErrBadArguments},
		{"two values", "x=y=z", "-", "-", zk.ErrBadArguments},
		{"no dot in the list", "-", "-", "server=d:1:2;3", zk.ErrBadArguments},
		{"two lines in one", "server.4=d:1:2;3\nserver.5=e:1:2;3", "-", "-", zk.ErrBadArguments},
		{"an address of another", "server.4=10.0.0.3:2888:3888;2181", "-", "-", zk.ErrBadArguments},
		{"an address of another as client port", "server.4=d:1:2;10.0.0.3:3888", "-", "-", zk.ErrBadArguments},
		{"an address of another host in capitals", "server.4=d:1:2;3,server.5=D:2:5;3", "-", "-", zk.ErrBadArguments},
		{"an address of another that joins", "server.4=d:1:2;3,server.5=d:2:5;3", "-", "-", zk.ErrBadArguments},
		{"a secure client port", "server.4=d:1:2;3;4", "-", "-", zk.ErrBadArguments},
		{"a secure client port alone", "server.4=d:1:2;;4", "-", "-", zk.ErrBadArguments},
		{"a secure client port in the list", "-", "-", "server.1=a:1:2;3,server.2=b:1:2;;4", zk.ErrBadArguments},
		{"several addresses", "server.4=d:1:2|e:1:2;3", "-", "-", zk.ErrBadArguments},
		{"a key that is none", "-", "-", "server.1=a:1:2,server.2=b:1:2,tickTime=5", zk.ErrBadArguments},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, code, _ := mustParse(t, three).Change(ask(c.joining, c.leaving, c.members), Rules{ParticipantsMin: 2}); code != c.want {
				t.Errorf("got %v, want %v", code, c.want)
			}
		})
	}
}

// A reconfig that running servers could adopt, but with which one of them could not be started, is
// refused.
func TestReconfigThatNobodyCouldBeStartedWithIsRefused(t *testing.T) {
	several := mustParse(t, "server.1=a:1:2|b:3:4;5\nserver.2=10.0.0.2:2888:3888;2181\nserver.3=10.0.0.2:2888:3888;2182\nversion=100000000")
	for _, c := range []struct {
		name             string
		before           *Config
		joining, members string
		want             string
	}{
		{"other ports", mustParse(t, three), "server.4=d:1:2|e:2:3;5", "-", "server.4=d:1:2|e:2:3:participant;0.0.0.0:5: a port for learners is one for votes as well: those of several addresses are open on all"},
		{"ports of each address", mustParse(t, three), "-", "server.1=a:1:2,server.2=b:1:2|c:3:4", ""},
		{"clients on the quorum port", mustParse(t, three), "server.4=d:1:2;1", "-", "server.4=d:1:2:participant;0.0.0.0:1: a port for clients is one of its two ports for servers"},
		{"clients on the election port", mustParse(t, three), "-", "server.1=a:1:2;a:2,server.2=b:1:2", "server.1=a:1:2:participant;a:2: a port for clients is one of its two ports for servers"},
		{"clients on a port that is open on all addresses", mustParse(t, three), "server.4=d:1:2|e:1:2;127.0.0.1:2", "-", "server.4=d:1:2|e:1:2:participant;127.0.0.1:2: a port for clients is one of its two ports for servers"},
		{"one that joins at the port for clients of another", mustParse(t, named), "server.4=h1:3:4;h1:2181", "-", "server.4=h1:3:4:participant;h1:2181: h1:2181 is an address of another server"},
		{"two at one address", mustParse(t, three), "-", "server.1=a:1:2,server.2=a:2:3", "server.2=a:2:3:participant: a:2 is an address of server 1"},
		{"one at the address of one that stays", mustParse(t, three), "-", line1 + line2 + line3 + "server.9=10.0.0.1:3888:5;6", "server.9=10.0.0.1:3888:5:participant;0.0.0.0:6: 10.0.0.1:3888 is an address of server 1"},
		{"clients on the port for clients of one that stays", mustParse(t, named), "-", named1 + named2 + "server.3=h1:3:4;h1:2181", "server.3=h1:3:4:participant;h1:2181: h1:2181 is an address of server 1"},
		{"clients on the port for learners of one that stays", mustParse(t, named), "-", named1 + named2 + "server.3=h1:3:4;h1:1", "server.3=h1:3:4:participant;h1:1: h1:1 is an address of server 1"},
		{"votes on the port for clients of one that comes, too", mustParse(t, three), "-", named1 + "server.2=h1:3:2181;h1:5", "server.2=h1:3:2181:participant;h1:5: h1:2181 is an address of server 1"},
		{"a port for TLS that another has", mustParse(t, named), "-", named1 + named2 + "server.3=h3:1:2;h3:3;h2:2181", "server.3=h3:1:2:participant;h3:3;h2:2181: h2:2181 is an address of server 2"},
		{"one at the address of one that stays, in capitals", mustParse(t, named), "-", named1 + "server.2=H1:1:5;h2:2181", "server.2=H1:1:5:participant;h2:2181: H1:1 is an address of server 1"},
		{"clients on the election port, in capitals", mustParse(t, three), "-", "server.1=a:1:2;A:2,server.2=b:1:2", "server.1=a:1:2:participant;A:2: a port for clients is one of its two ports for servers"},
		{"clients on all addresses of one host", mustParse(t, named), "-", named1 + named2 + "server.3=h1:3:4;2181", ""},
		{"clients of two at the loopback", mustParse(t, three), "-", "server.1=a:1:2;127.0.0.1:5,server.2=a:3:4;127.0.0.1:5", ""},
		{"one that changes the case of its own name", mustParse(t, named), "-", named1 + named2 + "server.3=H3:1:2;h3:2181", ""},
		{"clients elsewhere on the host", mustParse(t, three), "server.4=10.0.0.4:1:2;10.0.0.5:1", "-", ""},
		{"places of each machine's own", mustParse(t, three), "-", "server.1=localhost:1:2,server.2=localhost:1:2", ""},
		{"two that change places", mustParse(t, three), "-", "server.1=10.0.0.2:2888:3888,server.2=10.0.0.1:2888:3888", ""},
		{"others that are so, and stay", several, "server.4=d:1:2;3", "-", ""},
		{"another that becomes so", several, "server.1=a:1:2|b:3:5;5", "-", "server.1=a:1:2|b:3:5:participant;0.0.0.0:5: a port for clients is one of its two ports for servers"},
	} {
		_, code, why := c.before.Change(ask(c.joining, "-", c.members), Rules{ParticipantsMin: 2, MultiAddress: true, SecurePorts: true})
		if want := map[bool]zk.Code{true: zk.OK, false: zk.ErrBadArguments}[c.want == ""]; code != want || c.want == "" && why != nil || c.want != "" && (why == nil || why.Error() != c.want) {
			t.Errorf("%s: %v, %v\nwant %s", c.name, code, why, c.want)
		}
	}
}

func TestReconfigFollowsTheRules(t *testing.T) {
	c := mustParse(t, three)
	if next, code, _ := c.Change(ask("-", "2,3", "-"), Rules{ParticipantsMin: 1}); code != zk.OK || len(next.Members) != 1 {
		t.Error("one server alone:", code)
	}
	if _, code, _ := c.Change(ask("server.4=d:1:2|e:1:2;3", "-", "-"), Rules{ParticipantsMin: 2, MultiAddress: true}); code != zk.OK {
		t.Error("several addresses:", code)
	}
	for spec, want := range map[string]zk.Code{
		"d:1:2;3;4": zk.OK, "d:1:2;;4": zk.OK, "d:1:2;;[::1]:4": zk.OK, "d:1:2": zk.ErrBadArguments, "d:1:2;;": zk.ErrBadArguments,
		"d:1:2;3;3": zk.ErrBadArguments, "d:1:2;d:3;3": zk.ErrBadArguments, "d:1:2;10.0.0.1:3;10.0.0.2:3": zk.OK, "d:1:2;3;2": zk.ErrBadArguments,
	} {
		next, code, why := c.Change(ask("server.4="+spec, "-", "-"), Rules{ParticipantsMin: 2, SecurePorts: true})
		if code != want {
			t.Errorf("%s, where ports for TLS may stand: %v, %v", spec, code, why)
		}
		if code != zk.OK {
			continue
		}
		if again := mustParse(t, next.Text()); !again.Equal(next) || again.Member(4).Secure.Port == 0 {
			t.Errorf("%s is written as %s", spec, next.Text())
		}
	}
	for version, want := range map[int64]zk.Code{-1: zk.OK, 0x100000000: zk.OK, 0: zk.ErrBadVersion, 0x100000001: zk.ErrBadVersion} {
		request := ask("-", "3", "-")
		request.ConfigID = version
		if _, code, _ := c.Change(request, Rules{ParticipantsMin: 2}); code != want {
			t.Errorf("version %x: %v", version, code)
		}
	}
	for id, want := range map[string]zk.Code{"254": zk.OK, "255": zk.ErrBadArguments, "511": zk.ErrBadArguments, "3": zk.OK} {
		if _, code, _ := c.Change(ask("server."+id+"=d:1:2;3", "-", "-"), Rules{ParticipantsMin: 2, IDMax: 254}); code != want {
			t.Errorf("server %s: %v", id, code)
		}
	}
	if _, code, _ := mustParse(t, three+"\nserver.300=e:1:2;3").Change(ask("-", "3", "-"), Rules{ParticipantsMin: 2, IDMax: 254}); code != zk.OK {
		t.Error("a number that is there:", code)
	}
	groups := mustParse(t, three+"\ngroup.1=1:2:3")
	if _, code, _ := groups.Change(ask("-", "3", "-"), Rules{ParticipantsMin: 2}); code != zk.ErrBadArguments {
		t.Error("out of a group:", code)
	}
	if next, code, _ := groups.Change(ask("-", "-", three), Rules{ParticipantsMin: 2}); code != zk.OK || next.Groups != nil {
		t.Error("from groups to a majority:", code)
	}
}

// TestManyServersJoinAtTheCostOfTheirNumber: 60,000 servers fit in a request. It is
// refused, but the leader has to look at all of them and does nothing else meanwhile.
func TestManyServersJoinAtTheCostOfTheirNumber(t *testing.T) {
	c, err := Parse("server.1=10.0.0.1:1:2;3\nserver.2=10.0.0.2:1:2;3\nversion=100000000")
	if err != nil {
		t.Fatal(err)
	}
	cost := func(servers int) (text string, took time.Duration) {
		var joining strings.Builder
		for i := range servers {
			fmt.Fprintf(&joining, "%d=n%x:1:2;3,", i+3, i)
		}
		text = joining.String()
		change := func() {
			next, code, _ := c.Change(&zk.Reconfig{ConfigID: -1, Joining: &text}, Rules{ParticipantsMin: 2})
			if code != zk.ErrBadArguments || next != nil {
				t.Fatalf("%v", code)
			}
		}
		return text, awaittest.Cost(func() func() { return change })
	}
	const few, many = 6_000, 60_000
	_, ofFew := cost(few)
	text, ofMany := cost(many)
	if ofMany > 4*many/few*ofFew { // ten times as long, or ten thousand times
		t.Errorf("%d servers took %v, %d took %v", few, ofFew, many, ofMany)
	}
	text += "1000000=n7:9:1;9" // an address of one of the others
	if _, code, _ := c.Change(&zk.Reconfig{ConfigID: -1, Joining: &text}, Rules{}); code != zk.ErrBadArguments {
		t.Errorf("an address of another: %v", code)
	}
	for text, want := range map[string]zk.Code{
		"1=10.0.0.9:1:2;3,2=10.0.0.1:1:2;3": zk.OK,              // the old address of a server that moves
		"2=10.0.0.1:1:2;3,1=10.0.0.9:1:2;3": zk.ErrBadArguments, // the new address of a server that moves
	} {
		if _, code, _ := c.Change(&zk.Reconfig{ConfigID: -1, Joining: &text}, Rules{}); code != want {
			t.Errorf("%s: %v, expected %v", text, code, want)
		}
	}
}
