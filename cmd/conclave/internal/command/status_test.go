package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
)

func TestStatusFindsTheOtherServersInAConfiguration(t *testing.T) {
	const zoo = "membership: \nserver.1=zoo1:2888:3888:participant\nserver.2=zoo2:2888:3888:participant\nversion=0"
	for _, c := range []struct{ name, text, asked, port, want string }{
		{"client addresses", "server.1=a:1:2:participant;b:3\nserver.2=c:1:2:observer;d:4\nversion=100000000", "b:3", "3", "[{1 b:3} {2 d:4}]"},
		{"any address", "server.1=a:1:2:participant;0.0.0.0:3\nserver.2=[fe80::2]:1:2:participant;[::]:4", "a:3", "3", "[{1 a:3} {2 [fe80:0:0:0:0:0:0:2]:4}]"},
		{"the port of each own file", zoo, "zoo1:2181", "2181", "[{1 zoo1:2181} {2 zoo2:2181}]"},
		{"a server that serves TLS alone", zoo, "zoo1:2281", "-1", "[{1 zoo1:2281} {2 zoo2:2281}]"},
		{"several on one host", "server.1=h:1:2\nserver.2=h:3:4\nserver.3=i:1:2", "h:2181", "2181", "[{1 } {2 } {3 i:2181}]"},
		{"their localhost", "server.1=localhost:1:2;2181\nserver.2=127.0.0.1:3:4;0.0.0.0:2182", "far:2181", "2181", "[{1 far:2181} {2 far:2182}]"},
		{"our localhost", "server.1=127.0.0.1:1:2;2181\nserver.2=127.0.0.1:3:4;127.0.0.1:2182", "localhost:2181", "2181", "[{1 127.0.0.1:2181} {2 127.0.0.1:2182}]"},
		{"stand-alone", "serverId=0\n", "h:2181", "2181", "[]"},
		{"not a configuration", "server.1=nonsense", "h:2181", "2181", "[]"},
	} {
		if got := fmt.Sprint(members(c.text, c.asked, c.port)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestStatusTellsHowFarAServerIsBehind(t *testing.T) {
	for _, c := range []struct{ leader, zxid, want string }{
		{"0x200000005", "0x200000005", "0"},
		{"0x200000005", "0x200000003", "2"},
		{"0x200000005", "0x200000006", "0"}, // it was asked later
		{"0x200000005", "0x100000009", "5+"},
		{"0x200000000", "0x100000009", ""},
		{"0x0", "0x0", "0"},
		{"0x200000005", "", ""},
		{"", "0x200000005", ""},
	} {
		all := []standing{{Mode: "leader", Zxid: c.leader}, {Mode: "follower", Zxid: c.zxid}}
		compare(all)
		if all[1].Lag != c.want || all[0].Lag != "" {
			t.Errorf("%s behind %s: %q, want %q", c.zxid, c.leader, all[1].Lag, c.want)
		}
	}
}

func TestStatusAsJSONHasNumbersWhereTheServerTellsThem(t *testing.T) {
	all := []standing{
		{Server: "a:1", ID: "0", Mode: "leader", Epoch: "2", Zxid: "0x200000005", InSync: "1/2", Latency: "0/2.5/24",
			Mntr: map[string]string{"zk_version": "3.9.5", "zk_server_id": "0", "zk_avg_latency": "2.5", "zk_server_state": "NaN"}},
		{Server: "b:1", Lag: "5+", Znodes: "12"},
		{Server: "c:1", Error: "refused"},
	}
	const want = `[{"server":"a:1","id":0,"mode":"leader","epoch":2,"zxid":"0x200000005","inSync":1,"followers":2,"latencyMs":{"min":0,"avg":2.5,"max":24},` +
		`"mntr":{"zk_avg_latency":2.5,"zk_server_id":0,"zk_server_state":"NaN","zk_version":"3.9.5"}},` +
		`{"server":"b:1","lag":5,"lagAtLeast":true,"znodes":12},{"server":"c:1","error":"refused"}]`
	got, err := json.Marshal(answers(all))
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s, want\n%s", err, got, want)
	}
}

func TestStatusNamesTheServersThatItCannotFind(t *testing.T) {
	const text = "server.1=h:1:2\nserver.2=h:3:4\nserver.3=h:5:6"
	asked := standing{Server: "h:2181", ID: "1", membership: members(text, "h:2181", "2181")}
	if all, lost := askOthers(t.Context(), []standing{asked}, 0); len(all) != 1 || lost != "server 2, 3" {
		t.Errorf("%v, lost %v", all, lost)
	}
	asked.ID = "" // it may be any of the three
	if _, lost := askOthers(t.Context(), []standing{asked}, 0); lost != "2 of the servers 1, 2, 3" {
		t.Errorf("lost %v", lost)
	}
}

func TestStatusFitsIn120Columns(t *testing.T) {
	one := standing{Server: "zk1.internal:2181", ID: "1", Mode: "follower", Epoch: "12", Zxid: "0xc0000a4b1", Lag: "0", InSync: "",
		Sessions: "1200", Connections: "400", Znodes: "120034", Latency: "0/0.5366/184", Version: "3.9.5-conclave-0.1.0"}
	var text strings.Builder
	if err := statusTable(&text, []standing{one}); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text.String()) {
		if len(line) > 121 {
			t.Errorf("%d columns: %s", len(line)-1, line)
		}
	}
	if !strings.HasSuffix(text.String(), " 0/0.5/184   conclave-0.1.0\n") {
		t.Errorf("%s", text.String())
	}
}

func TestHintOfAServerThatIsDownIsNotToStartOthers(t *testing.T) {
	down := standing{Server: "c:1", Error: "refused"}
	for _, c := range []struct {
		all  []standing
		want string
	}{
		{[]standing{down}, "check that it is running, and that this is its client port"},
		{[]standing{{Server: "a:1", Mode: "leader"}, down}, "the others answer: start it again"},
		{[]standing{{Server: "a:1", Mode: "leader"}, {Server: "b:1", Mode: "not serving", Error: notServing}}, "more than half of the servers"},
	} {
		var hinted *cli.Error
		if err := unanswered(c.all); !errors.As(err, &hinted) || hinted.Exit != cli.ExitNoServer || !strings.Contains(hinted.Hint, c.want) {
			t.Errorf("%v: %+v", c.all, hinted)
		}
	}
}
