package zoocfg

import (
	"strconv"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/ensemble"
)

// save puts a configuration in force, like a server that was started with the files.
func (a *at) save(texts ...string) {
	a.Helper()
	save := a.start().Server.SaveEnsemble
	for _, text := range texts {
		if err := save(a.parse(text), false); err != nil {
			a.Fatal(err)
		}
	}
}

// A whole new list may have no client ports: then the previous ones stay, in zoo.cfg.
func TestPortForClientsThatNoLineSaysAnyMoreStays(t *testing.T) {
	const none = "server.1=a:2888:3888\nserver.2=b:2888:3888\nserver.3=c:2888:3888\n"
	for line, want := range map[string]struct{ keys, addr, secure string }{
		"2182":              {"clientPort=2182\n", ":2182", ""},
		"10.0.0.2:2182":     {"clientPort=2182\nclientPortAddress=10.0.0.2\n", "10.0.0.2:2182", ""},
		"[::1]:2182;2282":   {"clientPort=2182\nclientPortAddress=0:0:0:0:0:0:0:1\nsecureClientPort=2282\n", "[0:0:0:0:0:0:0:1]:2182", ":2282"},
		";10.0.0.2:2282":    {"secureClientPort=2282\nsecureClientPortAddress=10.0.0.2\n", "", "10.0.0.2:2282"},
		"2182;0.0.0.0:2282": {"clientPort=2182\nsecureClientPort=2282\n", ":2182", ":2282"},
	} {
		a := newAt(t)
		first := strings.Replace(servers, ";2182", ";"+line, 1)
		a.disk = disk(t, map[string]string{"/data/myid": "2", "/etc/zoo.cfg": static + "reconfigEnabled=true\nssl.keyStore.location=/k.pem\nssl.trustStore.location=/k.pem\n" + first})
		a.save(first + "version=100000000")
		before := a.start().Server
		a.save(none + "version=100000001")
		got := a.start().Server
		if !strings.Contains(a.text("/etc/zoo.cfg"), want.keys+"dynamicConfigFile=/etc/zoo.cfg.dynamic.100000001\n") || got.ClientAddr != want.addr || got.SecureAddr != want.secure ||
			got.ClientAddr != before.ClientAddr || got.SecureAddr != before.SecureAddr || got.Ensemble.Version != 0x100000001 {
			t.Errorf("%s: %q and %q:\n%s", line, got.ClientAddr, got.SecureAddr, a.text("/etc/zoo.cfg"))
		}
		a.save(none+"version=100000002", first+"version=100000003")
		if got := a.start().Server; got.ClientAddr != want.addr || got.SecureAddr != want.secure || strings.Contains(a.text("/etc/zoo.cfg"), "lientPort") {
			t.Errorf("%s, and back: %q and %q:\n%s", line, got.ClientAddr, got.SecureAddr, a.text("/etc/zoo.cfg"))
		}
	}
}

// The port in the last line stays, even without a start in between.
func TestPortForClientsThatAReconfigHasMovedStays(t *testing.T) {
	a := newAt(t)
	a.save(servers+"version=100000000", strings.Replace(servers, ";2182", ";2199", 1)+"version=100000001",
		strings.ReplaceAll(servers, ";2182", "")+"version=100000002")
	if got := a.start().Server.ClientAddr; got != ":2199" {
		t.Errorf("%s:\n%s", got, a.text("/etc/zoo.cfg"))
	}
}

func TestSecurePortOfALineTakesThePlaceOfThatOfTheFile(t *testing.T) {
	a := newAt(t)
	a.disk = disk(t, map[string]string{"/data/myid": "2", "/etc/zoo.cfg": static + "reconfigEnabled=true\nssl.keyStore.location=/k.pem\nssl.trustStore.location=/k.pem\nsecureClientPort=2281\n" + servers})
	a.save(strings.Replace(servers, ";2182", ";2182;2290", 1) + "version=100000001")
	if got := a.start().Server.SecureAddr; got != ":2290" {
		t.Errorf("%q:\n%s", got, a.text("/etc/zoo.cfg"))
	}
}

// joiner returns the disk of a server that will be added: the current servers have no line
// for it.
func joiner(t *testing.T, own string) *at {
	return &at{t, disk(t, map[string]string{"/data/myid": "4", "/etc/zoo.cfg": static + "reconfigEnabled=true\n" + servers + own})}
}

func TestServerThatIsToBeAddedIsStartedAgain(t *testing.T) {
	a := joiner(t, "server.4=d:2888:3888:observer;2184\n")
	for _, version := range []string{"100000000", "100000007"} {
		a.save(servers + "version=" + version)
		c := a.start()
		s := c.Server
		if s.ID != 4 || s.Ensemble.Member(4) != nil || s.Own == nil || s.Own.String() != "d:2888:3888:observer;0.0.0.0:2184" || !s.Observer || s.ClientAddr != ":2184" || s.Line() != s.Own {
			t.Errorf("%s: %+v\n%s", version, s.EnsembleConfig, a.text("/etc/zoo.cfg"))
		}
		if strings.Count(a.text("/etc/zoo.cfg"), ownLineKey+"=") != 1 || len(c.Remarks) > 0 {
			t.Errorf("%s: %v\n%s", version, c.Remarks, a.text("/etc/zoo.cfg"))
		}
	}
	a.save(servers + "server.4=d:2889:3889;2184\nversion=100000008")
	if s := a.start().Server; s.Own != nil || s.Ensemble.Member(4) == nil || s.Observer || strings.Contains(a.text("/etc/zoo.cfg"), ownLineKey) {
		t.Errorf("added: %+v\n%s", s.EnsembleConfig, a.text("/etc/zoo.cfg"))
	}
	a.save(servers + "version=100000009")
	if s := a.start().Server; s.Own == nil || s.Own.String() != "d:2889:3889:participant;0.0.0.0:2184" || s.ClientAddr != ":2184" {
		t.Errorf("taken out: %+v\n%s", s.EnsembleConfig, a.text("/etc/zoo.cfg"))
	}
}

// The client port in a file stays if the line has none.
func TestServerThatIsToBeAddedKeepsThePortOfItsFile(t *testing.T) {
	a := joiner(t, "server.4=d:2888:3888\nclientPort=2194\nclientPortAddress=10.0.0.4\n")
	a.save(servers + "version=100000000")
	if s := a.start().Server; s.ClientAddr != "10.0.0.4:2194" || s.Own == nil {
		t.Errorf("%q\n%s", s.ClientAddr, a.text("/etc/zoo.cfg"))
	}
	save := a.start().Server.SaveEnsemble
	if err := save(a.parse(servers+"server.4=d:2889:3889;2195\nversion=100000001"), true); err != nil {
		t.Fatal(err)
	}
	if s := a.start().Server; s.ClientAddr != "10.0.0.4:2194" || s.Own == nil || s.Own.Quorum[0].Port != 2889 {
		t.Errorf("while it is added: %q, %v\n%s", s.ClientAddr, s.Own, a.text("/etc/zoo.cfg"))
	}
	if err := save(a.parse(servers+"server.4=d:2889:3889;2195\nversion=100000001"), false); err != nil {
		t.Fatal(err)
	}
	if s := a.start().Server; s.ClientAddr != ":2195" || s.Own != nil {
		t.Errorf("once it is added: %q, %v\n%s", s.ClientAddr, s.Own, a.text("/etc/zoo.cfg"))
	}
}

// A server that is killed while it is added finds its line in the proposal.
func TestServerThatIsBeingAddedStartsByTheProposal(t *testing.T) {
	a := joiner(t, "server.4=d:2888:3888:observer;2184\n")
	a.save(servers + "version=100000000")
	if err := a.start().Server.SaveEnsemble(a.parse(servers+"server.4=d:2889:3889;2185\nversion=100000001"), true); err != nil {
		t.Fatal(err)
	}
	s := a.start().Server
	if s.Own == nil || s.Own.String() != "d:2889:3889:participant;0.0.0.0:2185" || s.Observer || s.Ensemble.Version != 1<<32 || s.Pending == nil || s.ClientAddr != ":2185" {
		t.Errorf("%+v %s", s.EnsembleConfig, s.ClientAddr)
	}
}

func TestOwnLineThatCannotBeTakenIsTold(t *testing.T) {
	for lines, want := range map[string]string{
		ownLineKey + "=b:2888":                         `/etc/zoo.cfg:8: conclave.ownLine: "b:2888": want host:quorumPort:electionPort[:participant|observer]: 2 parts`,
		"reconfigEnabled=false":                        "/data/myid: server 2 is not among the server lines (/etc/zoo.cfg:6 and on): a server that will join needs its own line, too",
		ownLineKey + "=b:1:2;3\nreconfigEnabled=false": "/data/myid: server 2 is not among the server lines (/etc/zoo.cfg:6 and on): a server that will join needs its own line, too",
	} {
		_, err := member(t, static+"reconfigEnabled=true\nserver.1=a:2888:3888;2181\nserver.3=c:2888:3888;2183\n"+lines, nil)
		if first, _, _ := strings.Cut(told(err), "\n"); first != want {
			t.Errorf("%s:\n got %v\nwant %s", lines, err, want)
		}
	}
}

// zoocfg-C5: a configuration with which a start would be refused never replaces one with
// which it would succeed.
func TestConfigurationThatNoStartIsPossibleWithIsNotSaved(t *testing.T) {
	others := "server.1=a:2888:3888;2181\nserver.3=c:2888:3888;2183\n"
	for name, c := range map[string]struct{ lines, next, want string }{
		"a port twice": {"multiAddress.enabled=true\n", "server.2=b:2888:3888|d:3888:2889;2182\n",
			"server.2 port 3888 is that of server.2, too"},
		"several addresses": {"", "server.2=b:2888:3888|d:2888:3888;2182\n",
			"/etc/zoo.cfg.dynamic.100000001:2: server.2: has several addresses: that needs multiAddress.enabled=true"},
	} {
		a := &at{t, disk(t, map[string]string{"/data/myid": "2", "/etc/zoo.cfg": static + "reconfigEnabled=true\n" + c.lines + servers})}
		a.save(servers + "version=100000000")
		before := a.text("/etc/zoo.cfg")
		err := a.start().Server.SaveEnsemble(a.parse(others+c.next+"version=100000001"), false)
		if err == nil || !strings.HasSuffix(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "/etc/zoo.cfg is left as it is") {
			t.Errorf("%s: %v", name, err)
		}
		if a.text("/etc/zoo.cfg") != before || a.start().Server.Ensemble.Version != 1<<32 {
			t.Errorf("%s:\n%s", name, a.text("/etc/zoo.cfg"))
		}
		// A configuration that is refused for another reason is saved: the operator must
		// correct the newer one.
		a.disk = disk(t, map[string]string{"/data/myid": "2", "/etc/zoo.cfg": static + "reconfigEnabled=true\nelectionAlg=0\n" + c.lines + servers})
		files, err := NewFiles(a.disk, "/etc/zoo.cfg", 2)
		if err != nil {
			t.Fatal(err)
		}
		entries, err := Parse("/etc/zoo.cfg", []byte(a.text("/etc/zoo.cfg")))
		if err != nil {
			t.Fatal(err)
		}
		files.start = (&reader{given: entries, file: "/etc/zoo.cfg", fsys: a.disk}).startWith
		if err := files.Save(a.parse(others+c.next+"version=100000001"), false); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The port on the command line stays, whatever a line says.
func TestLineThatTheCommandLineContradictsIsNotSaved(t *testing.T) {
	text := static + "reconfigEnabled=true\n" + servers
	c, err := member(t, text, map[string]string{"/etc/zoo.cfg": text}, Entry{Key: "clientPort", Value: "2182"})
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{"2199": "client port 2199 is not clientPort 2182", "": ""} {
		next, err := ensemble.Parse(strings.Replace(servers, ";2182", ";"+line, 1) + "version=10000000" + strconv.Itoa(len(line)))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Server.SaveEnsemble(next, false); !strings.HasSuffix(told(err), want) || (err == nil) != (want == "") {
			t.Errorf("%q: %v", line, err)
		}
	}
}

func TestPortsThatCannotBeOpenBesideEachOtherAreRefused(t *testing.T) {
	const prometheus = "metricsProvider.className=" + prometheusProvider + "\n"
	for lines, want := range map[string]string{
		"admin.serverPort=2182\n":                                                                      "/etc/zoo.cfg:6: admin.serverPort: port 2182 is that of clientPort, too",
		"admin.serverPort=2182\nadmin.enableServer=false\n":                                            "",
		"observerMasterPort=3888\n":                                                                    "/etc/zoo.cfg:6: observerMasterPort: port 3888 is that of server.2, too",
		"admin.serverPort=3888\nadmin.serverAddress=0.0.0.0\n":                                         "/etc/zoo.cfg:6: admin.serverPort: port 3888 is that of server.2, too",
		"admin.serverPort=3888\nadmin.serverAddress=127.0.0.1\n":                                       "",
		"admin.serverPort=3888\nadmin.serverAddress=127.0.0.1\nquorumListenOnAllIPs=true\n":            "/etc/zoo.cfg:6: admin.serverPort: port 3888 is that of server.2, too",
		"secureClientPort=2888\nssl.keyStore.location=/k.pem\nssl.trustStore.location=/k.pem\n":        "/etc/zoo.cfg:6: secureClientPort: port 2888 is that of server.2, too",
		prometheus + "metricsProvider.httpPort=8080\n":                                                 "/etc/zoo.cfg:7: metricsProvider.httpPort: port 8080 is that of admin.serverPort, too",
		prometheus + "metricsProvider.httpPort=8080\nadmin.serverPort=0\n":                             "",
		prometheus + "metricsProvider.httpPort=0\nadmin.serverPort=0\n":                                "",
		prometheus + "metricsProvider.httpPort=7001\nmetricsProvider.httpHost=B\nadmin.serverPort=1\n": "",
		prometheus + "metricsProvider.httpPort=2888\nmetricsProvider.httpHost=B\n":                     "/etc/zoo.cfg:7: metricsProvider.httpPort: port 2888 is that of server.2, too",
	} {
		if _, err := member(t, static+"admin.enableServer=true\n"+lines+servers, nil); told(err) != want {
			t.Errorf("%s:\n got %v\nwant %s", lines, err, want)
		}
	}
	for line, want := range map[string]string{
		"b:2888:3888;2888":      "/etc/zoo.cfg: clientPort port 2888 is that of server.2, too",
		"b:2888:3888;b:3888":    "/etc/zoo.cfg: clientPort port 3888 is that of server.2, too",
		"b:2888:3888;[::1]:888": "",
	} {
		if _, err := member(t, static+strings.Replace(servers, "b:2888:3888;2182", line, 1), nil); told(err) != want {
			t.Errorf("%s:\n got %v\nwant %s", line, err, want)
		}
	}
	if _, err := read(t, "admin.serverPort=2181\nadmin.enableServer=true"); told(err) != "zoo.cfg:3: admin.serverPort: port 2181 is that of clientPort, too" {
		t.Error(err)
	}
}

// A reconfig that moves a client port to an operators' port.
func TestPortForClientsOnAPortForOperatorsIsNotSaved(t *testing.T) {
	a := newAt(t)
	a.disk = disk(t, map[string]string{"/data/myid": "2", "/etc/zoo.cfg": firstFile + "\nadmin.enableServer=true"})
	a.save(servers + "version=100000000")
	err := a.start().Server.SaveEnsemble(a.parse(strings.Replace(servers, ";2182", ";8080", 1)+"version=100000001"), false)
	if !strings.HasSuffix(told(err), "admin.serverPort port 8080 is that of clientPort, too") || a.start().Server.ClientAddr != ":2182" {
		t.Errorf("%v\n%s", err, a.text("/etc/zoo.cfg"))
	}
}

// The dashboard has a port, too: the start would fail once the client ports are open.
func TestPortOfTheDashboardIsNoOthers(t *testing.T) {
	for line, want := range map[string]string{
		"conclave.httpAddress=127.0.0.1:2181":                                              "zoo.cfg:3: conclave.httpAddress: port 2181 is that of clientPort, too",
		"conclave.httpAddress=127.0.0.1:8080\nadmin.enableServer=true":                     "zoo.cfg:3: conclave.httpAddress: port 8080 is that of admin.serverPort, too",
		"conclave.httpAddress=127.0.0.1:8090\nadmin.enableServer=true":                     "",
		"conclave.httpAddress=127.0.0.1:0\nadmin.enableServer=true":                        "",
		"conclave.httpAddress=127.0.0.2:2181\nclientPortAddress=127.0.0.1":                 "",
		"conclave.httpAddress=nowhere\nclientPortAddress=127.0.0.1":                        "", // CheckAddress refuses it
		"conclave.httpAddress=127.0.0.1:7443\nmetricsProvider.httpsPort=7443":              "",
		"conclave.httpAddress=[::1]:8080\nadmin.enableServer=true":                         "",
		"conclave.httpAddress=[::1]:8080\nadmin.enableServer=true\nadmin.serverAddress=::": "zoo.cfg:3: conclave.httpAddress: port 8080 is that of admin.serverPort, too",
	} {
		if _, err := read(t, line); told(err) != want {
			t.Errorf("%s:\n got %v\nwant %s", line, err, want)
		}
	}
}
