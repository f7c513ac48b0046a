package zoocfg

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/ensemble"
)

// member reads a static file of server 2, together with the other files.
func member(t testing.TB, lines string, files map[string]string, given ...Entry) (*Config, error) {
	t.Helper()
	entries, err := Parse("/etc/zoo.cfg", []byte(lines))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{"/data/myid": "2\n"}
	for name, text := range files {
		all[name] = text
	}
	return Read(append(entries, given...), disk(t, all))
}

const (
	static  = "dataDir=/data\ntickTime=2000\ninitLimit=10\nsyncLimit=5\n"
	servers = "server.1=a:2888:3888;2181\nserver.2=b:2888:3888;2182\nserver.3=c:2888:3888;2183\n"
)

func TestAnEnsembleReachesTheServer(t *testing.T) {
	c, err := member(t, static+servers+"server.4=d:2888:3888:observer;2184\n"+
		"cnxTimeout=700\nquorumListenOnAllIPs=true\nelectionAlg=3\nconclave.linearizableReads=true\n"+
		"conclave.electionFinalizeMs=20\nconclave.silenceMs=90\ncommitLogCount=7\nmultiAddress.enabled=true\nstandaloneEnabled=false", nil)
	if err != nil {
		t.Fatal(err)
	}
	s := c.Server
	for name, ok := range map[string]bool{
		"ensemble": s.Ensemble != nil && len(s.Ensemble.Members) == 4 && len(s.Ensemble.Participants()) == 3 && s.Ensemble.Version == 0,
		"self":     s.ID == 2 && !s.Observer && s.ClientAddr == ":2182",
		"ticks":    s.InitLimit == 10 && s.SyncLimit == 5,
		"times":    s.ConnectTime == 700*time.Millisecond && s.ElectionFinalize == 20*time.Millisecond && s.SilenceTime == 90*time.Millisecond,
		"leader":   s.LinearizableReads && s.HistoryMax == 7,
		"rules":    s.Reconfig == ensemble.Rules{ParticipantsMin: 1, MultiAddress: true},
		"ports":    s.ListenOnAll,
		"files":    s.Pending == nil && s.SaveEnsemble == nil,
	} {
		if !ok {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if len(c.Remarks) > 0 {
		t.Error(c.Remarks)
	}
}

func TestTheNumberOfAServerMayBeThatOfItsPod(t *testing.T) {
	empty := strings.Replace(static, "/data", "/empty", 1) + servers
	for value, want := range map[string]int64{"2": 2, "zk-1": 2, "my-conclave-0": 1, "zk-2": 3} {
		c, err := member(t, empty, nil, Entry{Key: "conclave.myid", Value: value})
		if err != nil || int64(c.Server.ID) != want {
			t.Errorf("%s: server %d, want %d, %v", value, c.Server.ID, want, err)
		}
	}
	if c, err := member(t, static+servers, nil, Entry{Key: "conclave.myid", Value: "zk-1"}); err != nil || c.Server.ID != 2 {
		t.Errorf("server %d beside a file of the same number: %v", c.Server.ID, err)
	}
	for value, want := range map[string]string{
		"zk":   `command line: conclave.myid: "zk" is neither a number nor a name that ends in - and a number`,
		"zk-":  `command line: conclave.myid: "zk-" is neither a number nor a name that ends in - and a number`,
		"-1x":  `command line: conclave.myid: "-1x" is neither a number nor a name that ends in - and a number`,
		"zk-0": "command line: conclave.myid: is server 1, but /data/myid says 2: the directory is that of another server",
	} {
		if _, err := member(t, static+servers, nil, Entry{Key: "conclave.myid", Value: value}); err == nil || strings.Split(err.Error(), "\n")[0] != want {
			t.Errorf("%s:\n got %v\nwant %s", value, err, want)
		}
	}
	if _, err := member(t, empty, nil, Entry{Key: "conclave.myid", Value: "zk-8"}); err == nil ||
		!strings.HasPrefix(err.Error(), "command line: server 9 is not among the server lines") {
		t.Error(err)
	}
}

func TestWhatAnEnsembleLacksIsTold(t *testing.T) {
	for lines, want := range map[string]string{
		"dataDir=/data\ninitLimit=1\n" + servers:                                                "/etc/zoo.cfg: syncLimit is not set: the ensemble (/etc/zoo.cfg:3) needs it, in ticks after which a silent server is given up",
		"dataDir=/data\nsyncLimit=1\n" + servers:                                                "/etc/zoo.cfg: initLimit is not set: the ensemble (/etc/zoo.cfg:3) needs it, in ticks that a server has to join its leader",
		strings.Replace(static, "/data", "/empty", 1) + servers:                                 "/empty/myid: is missing: write this server's number N, that of its line server.N, into it",
		static + strings.Replace(servers, "server.2", "server.9", 1):                            "/data/myid: server 2 is not among the server lines (/etc/zoo.cfg:5 and on): a server that will join needs its own line, too",
		static + "clientPort=2181\n" + servers:                                                  "/etc/zoo.cfg:7: server.2: client port 2182 is not clientPort 2181",
		static + "clientPort=2182\nclientPortAddress=127.0.0.1\n" + servers:                     "/etc/zoo.cfg:8: server.2: client address 0.0.0.0 is not clientPortAddress 127.0.0.1",
		static + strings.ReplaceAll(servers, ";2182", ""):                                       "/etc/zoo.cfg: clientPort is not set: no client could connect",
		static + "secureClientPort=2281\n" + strings.ReplaceAll(servers, ";2182", ";2182;2282"): "/etc/zoo.cfg:7: server.2: secure client port 2282 is not secureClientPort 2281",
		static + servers + "server.4=d:1:2|e:1:2":                                               "/etc/zoo.cfg:8: server.4: has several addresses: that needs multiAddress.enabled=true",
		static + servers + "group.1=1:2":                                                        "/etc/zoo.cfg:5: server.1: server 3 is in no group: with group or weight lines each participant must be",
		static + servers + "quorum.auth.enableSasl=true":                                        `/etc/zoo.cfg:8: quorum.auth.enableSasl: needs a JAAS file: name it with -D java.security.auth.login.config=FILE`,
		static + servers + "oraclePath=/chassis":                                                `/etc/zoo.cfg:8: oraclePath: is for two participants, one of which may continue alone, but here are 3: leave it out`,
	} {
		if _, err := member(t, lines, nil); err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", lines, err, want)
		}
	}
	if _, err := member(t, static+servers, map[string]string{"/data/myid": "two"}); err == nil || !strings.Contains(err.Error(), "/data/myid") {
		t.Error(err)
	}
}

func TestWhatAnEnsembleShouldHaveIsRemarked(t *testing.T) {
	for lines, want := range map[string]string{
		strings.Replace(servers, "server.3", "#", 1):                        "/etc/zoo.cfg:5: server.1: no failure of a server is survived: that takes three participants, but here are 2",
		servers + "server.4=d:1:2":                                          "/etc/zoo.cfg:5: server.1: 4 participants survive no more failures than 3 do",
		servers + "peerType=observer":                                       "/etc/zoo.cfg:8: peerType: is not the role in /etc/zoo.cfg:6, which counts",
		servers + "sslQuorum=true\nsslQuorum=false":                         "/etc/zoo.cfg:9: sslQuorum: stands twice, line 8 is not used",
		servers + "conclave.reconfigSecurePorts=true":                       "/etc/zoo.cfg:8: conclave.reconfigSecurePorts: has no effect: reconfigEnabled is not set",
		servers + "conclave.ownLine=b:2888:3888;2182":                       "/etc/zoo.cfg:8: conclave.ownLine: has no effect: reconfigEnabled is not set",
		servers + "conclave.reconfigSecurePorts=true\nreconfigEnabled=true": "",
		servers + "peerType=participant\nsslQuorum=false":                   "",
		servers + "ssl.quorum.keyStore.location=/k.pem":                     "/etc/zoo.cfg:8: ssl.quorum.keyStore.location: has no effect: without sslQuorum or portUnification, and an ensemble, no port for servers speaks TLS",
		servers + "sslQuorum=true\nssl.quorum.crl=false":                    "",
		"standaloneEnabled=false\nserver.2=b:2888:3888;2182":                "/etc/zoo.cfg:6: server.2: no failure of a server is survived: that takes three participants, but here are 1",
	} {
		c, err := member(t, static+lines, nil)
		if err != nil || strings.Join(c.Remarks, "\n") != want || c.Server.Ensemble == nil {
			t.Errorf("%s:\n got %q, %v\nwant %q", lines, c.Remarks, err, want)
		}
	}
}

func TestTheClientPortIsThatOfTheLineOrOfTheFile(t *testing.T) {
	for lines, want := range map[string]string{
		servers:                       ":2182",
		"clientPort=2182\n" + servers: ":2182",
		"clientPort=2182\nclientPortAddress=0.0.0.0\n" + servers:                                           ":2182",
		"clientPort=2182\nclientPortAddress=127.0.0.1\n" + strings.Replace(servers, ";2182", "", 1):        "127.0.0.1:2182",
		"clientPort=2182\nclientPortAddress=127.0.0.1\n" + strings.Replace(servers, ";", ";127.0.0.1:", 2): "127.0.0.1:2182",
		"clientPort=2182\nclientPortAddress=::1\n" + strings.Replace(servers, ";2182", ";[0::1]:2182", 1):  "[0:0:0:0:0:0:0:1]:2182",
	} {
		c, err := member(t, static+lines, nil)
		if err != nil || c.Server.ClientAddr != want {
			t.Errorf("%s: %v, %v", lines, c.Server.ClientAddr, err)
		}
	}
}

func TestAServerOfSeveralAddressesListensOnAll(t *testing.T) {
	c, err := member(t, static+"multiAddress.enabled=true\nserver.1=a:1:2\nserver.2=b:1:2|c:3:2;2182", nil)
	if err != nil {
		t.Fatal(err)
	}
	line := c.Server.Ensemble.Member(2)
	if got := fmt.Sprint(c.Server.PeerAddresses(line.Quorum), c.Server.PeerAddresses(line.Election)); got != "[:1 :3] [:2]" {
		t.Error(got)
	}
}

func TestADynamicFileHasItsVersionInItsName(t *testing.T) {
	const lines = "server.1=a:2888:3888:participant;2181\nserver.2=b:2888:3888:observer;2182\nserver.3=c:2888:3888:participant;2183"
	for name, want := range map[string]int64{
		"/etc/zoo.cfg.dynamic.100000000": 1 << 32,
		"/etc/zoo.cfg.dynamic":           0,
		"/etc/zoo.cfg.dynamic.0":         0,
		"/etc/ensemble":                  0,
	} {
		c, err := member(t, static+"dynamicConfigFile="+name, map[string]string{name: lines})
		if err != nil || c.Server.Ensemble.Version != want || !c.Server.Observer || c.Server.ClientAddr != ":2182" {
			t.Errorf("%s: %+v, %v", name, c.Server.Ensemble, err)
		}
	}
}

func TestAProposalOutlivesTheServer(t *testing.T) {
	const name = "/etc/zoo.cfg.dynamic.100000000"
	for next, want := range map[string]string{
		"server.2=b:1:2;3\nversion=100000007": "server.2=b:1:2:participant;0.0.0.0:3\nversion=100000007",
		"server.2=b:1:2;3\nversion=100000000": "",
		"server.2=b:1:2;3":                    "",
	} {
		c, err := member(t, static+"dynamicConfigFile="+name, map[string]string{name: servers, "/etc/zoo.cfg.dynamic.next": next})
		got := ""
		if c.Server.Pending != nil {
			got = c.Server.Pending.Text()
		}
		if err != nil || got != want {
			t.Errorf("%s: %s, %v", next, got, err)
		}
	}
	_, err := member(t, static+"dynamicConfigFile="+name, map[string]string{name: servers, "/etc/zoo.cfg.dynamic.next": "server.2=b"})
	if err == nil || !strings.HasPrefix(err.Error(), "/etc/zoo.cfg.dynamic.next: the configuration that was proposed last: ") {
		t.Error(err)
	}
}

func TestAnEnsembleOfTheCommandLineIsNotKept(t *testing.T) {
	fromFlags := Entry{Key: "server.2", Value: "b:1:2;2182"}
	c, err := member(t, static+"standaloneEnabled=false\nreconfigEnabled=true", nil, fromFlags)
	if err != nil || c.Server.SaveEnsemble != nil || len(c.Remarks) != 2 ||
		c.Remarks[1] != "command line: server.2: a reconfig is not kept: the next start again takes the ensemble from the command line" {
		t.Error(c.Remarks, err)
	}
	pointer := Entry{Key: "dynamicConfigFile", Value: "/etc/x"}
	c, err = member(t, static+"reconfigEnabled=true", map[string]string{"/etc/x": servers}, pointer)
	if err != nil || c.Server.SaveEnsemble != nil || len(c.Remarks) != 1 {
		t.Error(c.Remarks, err)
	}
}

// A server that refuses data of another ensemble tells the operator to write the version
// there.
func TestVersionOfADynamicFileIsInItsNameOrInALine(t *testing.T) {
	for _, c := range []struct {
		name, line string
		want       int64
		err        string
	}{
		{"new.dynamic", "", 0, ""},
		{"new.dynamic", "version=10000000a", 0x10000000a, ""},
		{"zoo.cfg.dynamic.10000000a", "", 0x10000000a, ""},
		{"zoo.cfg.dynamic.10000000a", "version=10000000a", 0x10000000a, ""},
		{"zoo.cfg.dynamic.100000000", "version=10000000a", 0,
			"/etc/zoo.cfg.dynamic.100000000:4: version: 10000000a is not the version that the name of this file ends in, 100000000: rename the file, or remove the line"},
		{"new.dynamic", "version=x", 0, `/etc/new.dynamic:4: version: "x" is not a number in hexadecimal`},
		{"new.dynamic", "version=-1", 0, `/etc/new.dynamic:4: version: "-1" is not a number in hexadecimal`},
	} {
		got, err := member(t, static+"dynamicConfigFile=/etc/"+c.name, map[string]string{"/etc/" + c.name: servers + c.line})
		if told(err) != c.err || err == nil && got.Server.Ensemble.Version != c.want {
			t.Errorf("%s with %q: %v", c.name, c.line, err)
		}
	}
}

// TestServerWhoseEnsembleIsGoneDoesNotStartAloneInSilence: an empty dynamic file is
// refused, and a standalone server on the directory of an ensemble's server logs a remark.
func TestServerWhoseEnsembleIsGoneDoesNotStartAloneInSilence(t *testing.T) {
	const name = "/etc/zoo.cfg.dynamic.100000000"
	for _, text := range []string{"", "# all gone\n", "version=100000000\n"} {
		_, err := member(t, static+"clientPort=2181\ndynamicConfigFile="+name, map[string]string{name: text})
		if err == nil || !strings.Contains(err.Error(), "/etc/zoo.cfg:6: dynamicConfigFile: "+name+" has no server line: the server would start alone") {
			t.Errorf("%q: %v", text, err)
		}
	}
	one := map[string]string{name: "server.2=b:2888:3888;2181\n"}
	c, err := member(t, static+"dynamicConfigFile="+name, one)
	if err != nil || c.Server.Ensemble != nil || len(c.Remarks) != 0 {
		t.Errorf("one server that never had others: %v, %q", err, c.Remarks)
	}
	one["/data/version-2/currentEpoch"] = "4\n"
	c, err = member(t, static+"dynamicConfigFile="+name, one)
	if err != nil || len(c.Remarks) != 1 || !strings.Contains(c.Remarks[0], "/data/version-2/currentEpoch is that of a server of an ensemble, and this one starts alone") {
		t.Errorf("one server of what was an ensemble: %v, %q", err, c.Remarks)
	}
}

// TestMembersOnlyThatIsNotHeldIsRemarked: if an operator sets it to true, and another key
// lets others in, a remark names that key; there is no remark about defaults.
func TestMembersOnlyThatIsNotHeldIsRemarked(t *testing.T) {
	const (
		tls  = servers + "sslQuorum=true\n"
		only = "conclave.sslQuorumMembersOnly=true\n"
		none = "/etc/zoo.cfg:9: conclave.sslQuorumMembersOnly: has no effect: "
	)
	for lines, want := range map[string]string{
		tls + only: "",
		tls + only + "ssl.quorum.clientAuth=need\nssl.quorum.clientHostnameVerification=true":  "",
		tls + only + "ssl.quorum.hostnameVerification=false":                                   none + "ssl.quorum.hostnameVerification=false turns it off, as in Apache ZooKeeper",
		tls + only + "ssl.quorum.clientHostnameVerification=false":                             "", // by what stands in the certificate
		tls + only + "ssl.quorum.clientAuth=none":                                              none + "nobody is asked for a certificate, ssl.quorum.clientAuth is none",
		tls + only + "ssl.quorum.clientAuth=WANT":                                              none + "who shows no certificate connects, too, ssl.quorum.clientAuth is want",
		tls + only + "portUnification=true":                                                    none + "who speaks no TLS connects, too, portUnification is true",
		tls + only + "ssl.quorum.clientAuth=want\nssl.quorum.clientHostnameVerification=false": none + "who shows no certificate connects, too, ssl.quorum.clientAuth is want",
		servers + "\n" + only:                     none + "without sslQuorum or portUnification no port for servers speaks TLS",
		servers + "portUnification=true\n" + only: none + "who speaks no TLS connects, too, portUnification is true",
		tls + "conclave.sslQuorumMembersOnly=false\nssl.quorum.clientHostnameVerification=false": "",
		tls + "ssl.quorum.hostnameVerification=false":                                            "",
		tls + "reconfigEnabled=false\nssl.quorum.clientAuth=none":                                "",
	} {
		c, err := member(t, static+lines, nil)
		if err != nil || strings.Join(c.Remarks, "\n") != want {
			t.Errorf("%s:\n got %q, %v\nwant %q", lines, c.Remarks, err, want)
		}
	}
}

// Container images write 0.0.0.0 into a server's own line. With reconfigs, this line
// reaches all servers, which would look for that server on their own machines.
func TestAddressOfEachMachineIsRemarkedWithReconfigs(t *testing.T) {
	const (
		three = "server.1=a:2888:3888;2181\nserver.2=%s:2888:3888;2182\nserver.3=c:2888:3888;2183\n"
		first = "/etc/zoo.cfg:6: server.2: "
		then  = " means a different machine on each server, and with reconfigEnabled=true the other servers use this line, too: " +
			"they would not find this server when it leads. Write its host, and quorumListenOnAllIPs=true for ports on all addresses"
		on = "reconfigEnabled=true\n"
	)
	for lines, want := range map[string]string{
		fmt.Sprintf(three, "0.0.0.0"):        "",
		fmt.Sprintf(three, "b") + on:         "",
		fmt.Sprintf(three, "0.0.0.0") + on:   first + "0.0.0.0" + then,
		fmt.Sprintf(three, "[::]") + on:      first + "0:0:0:0:0:0:0:0" + then,
		fmt.Sprintf(three, "LocalHost") + on: first + "LocalHost" + then,
		fmt.Sprintf(three, "127.0.0.1:2888:3888|b") + on + "multiAddress.enabled=true\n":               "",
		"server.1=localhost:1:2;2181\nserver.2=127.0.0.1:3:4;2182\nserver.3=localhost:5:6;2183\n" + on: "",
	} {
		c, err := member(t, static+lines, nil)
		if err != nil || strings.Join(c.Remarks, "\n") != want {
			t.Errorf("%s:\n got %q, %v\nwant %q", lines, c.Remarks, err, want)
		}
	}
}

// A server that dials an address of two servers reaches only one of them, or itself. A
// shared address for clients is only remarked on.
func TestAddressOfTwoServersIsRefused(t *testing.T) {
	for lines, want := range map[string]string{
		servers: "",
		servers + "server.4=c:2888:3888:observer;2184\n":                                                              "/etc/zoo.cfg:8: server.4: c:2888 is an address of server.3, too",
		servers + "server.4=127.0.0.1:9:3888;2181\nserver.5=127.0.0.1:10:3888;2182\n":                                 "/etc/zoo.cfg:9: server.5: 127.0.0.1:3888 is an address of server.4, too",
		"server.1=a:2888:3888;c:2181\nserver.2=b:2888:3888;2182\nserver.3=C:2888:3888;c:2181\n":                       "/etc/zoo.cfg:7: server.3: c:2181 is an address of server.1, too",
		"server.1=a:2888:3888;127.0.0.1:2181\nserver.2=0.0.0.0:2888:3888;2181\nserver.3=c:2888:3888;127.0.0.1:2181\n": "",
		"server.1=localhost:1:2;2181\nserver.2=localhost:3:4;2182\nserver.3=localhost:5:6;2183\n":                     "",
		"server.1=localhost:1:2;2181\nserver.2=localhost:3:4;2182\nserver.3=localhost:5:3;2183\n":                     "/etc/zoo.cfg:7: server.3: localhost:3 is an address of server.2, too",
		"server.1=[::1]:1:2;2181\nserver.2=b:3:4;2182\nserver.3=[0:0:0:0:0:0:0:1]:1:5;2183\nserver.4=e:1:2;2181\n":    "/etc/zoo.cfg:7: server.3: [0:0:0:0:0:0:0:1]:1 is an address of server.1, too",
	} {
		c, err := member(t, static+lines, nil)
		got := told(err)
		if err == nil {
			got = strings.Join(c.Remarks, "\n")
		}
		if got != want {
			t.Errorf("%s:\n got %v\nwant %s", lines, got, want)
		}
	}
}
