package audit

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/zk"
)

// moment has a time zone, because lines use the local time of the machine.
var moment = time.Date(2026, 3, 1, 7, 5, 9, 42_000_000, time.FixedZone("", 3600))

func line(e *Event) string {
	return string(lineOf(e, "zookeeper/192.168.1.3"))
}

func lineOf(e *Event, user string) []byte {
	return appendLine(appendStamp(nil, moment), e, appendHead(nil, e, user))
}

func ip(address string) zk.Identity { return zk.Identity{Scheme: "ip", ID: address} }

// The lines are those of AuditEventTest and StandaloneServerAuditTest of Apache ZooKeeper 3.9, and of the
// samples in its documentation, which have spaces where the logger writes a tab.
func TestLinesAreThoseOfApache(t *testing.T) {
	client := []zk.Identity{ip("192.168.1.2"), {Scheme: "sasl", ID: "zkcli@HADOOP.COM"}}
	const who = "session=0x19344730000\tuser=192.168.1.2,zkcli@HADOOP.COM\tip=192.168.1.2\t"
	event := func(e Event) Event {
		e.Session, e.Client = 0x19344730000, client
		return e
	}
	plain := func(e Event) Event {
		e.Mode = NoMode
		return event(e)
	}
	for _, c := range []struct {
		event Event
		want  string
	}{
		{Event{Operation: ServerStart, Mode: NoMode, Result: Success}, "user=zookeeper/192.168.1.3\toperation=serverStart\tresult=success"},
		{Event{Operation: ServerStart, Mode: NoMode, Result: Failure}, "user=zookeeper/192.168.1.3\toperation=serverStart\tresult=failure"},
		{Event{Operation: ServerStop, Mode: NoMode, Result: Invoked}, "user=zookeeper/192.168.1.3\toperation=serverStop\tresult=invoked"},
		{event(Event{Operation: Create, Path: "/a", Result: Success}), who + "operation=create\tznode=/a\tznode_type=persistent\tresult=success"},
		{event(Event{Operation: Create, Path: "/a", Result: Failure}), who + "operation=create\tznode=/a\tznode_type=persistent\tresult=failure"},
		{event(Event{Operation: Create, Path: "/createTtlPath", Mode: zk.PersistentTTL, Result: Success}),
			who + "operation=create\tznode=/createTtlPath\tznode_type=persistent_with_ttl\tresult=success"},
		{event(Event{Operation: Create, Path: "/q0000000001", Mode: zk.PersistentSequentialTTL, Result: Success}),
			who + "operation=create\tznode=/q0000000001\tznode_type=persistent_sequential_with_ttl\tresult=success"},
		{plain(Event{Operation: SetData, Path: "/a", Result: Failure}), who + "operation=setData\tznode=/a\tresult=failure"},
		{plain(Event{Operation: SetACL, Path: "/a", ACL: zk.OpenACL(), Result: Success}),
			who + "operation=setAcl\tznode=/a\tacl=world:anyone:cdrwa\tresult=success"},
		{plain(Event{Operation: Delete, Path: "/b", Result: Success}), who + "operation=delete\tznode=/b\tresult=success"},
		{plain(Event{Operation: Multi, Result: Failure}), who + "operation=multiOperation\tresult=failure"},
		{plain(Event{Operation: Reconfig, Path: "/zookeeper/config", Result: Success}), who + "operation=reconfig\tznode=/zookeeper/config\tresult=success"},
		{Event{Session: 0x19344730001, Operation: EphemeralDeletion, Path: "/ephemral", Mode: NoMode, Result: Success},
			"session=0x19344730001\tuser=zookeeper/192.168.1.3\toperation=ephemeralZNodeDeletionOnSessionCloseOrExpire\tznode=/ephemral\tresult=success"},
	} {
		level := "INFO"
		if c.event.Result == Failure {
			level = "ERROR"
		}
		want := "2026-03-01 07:05:09,042 " + level + " o.a.z.a.Slf4jAuditLogger: " + c.want + "\n"
		if got := line(&c.event); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The names are those of CreateMode in lower case.
func TestEveryModeHasItsName(t *testing.T) {
	want := "persistent ephemeral persistent_sequential ephemeral_sequential container persistent_with_ttl persistent_sequential_with_ttl"
	if got := strings.Join(modes[:], " "); got != want || len(modes) != int(zk.PersistentSequentialTTL)+1 {
		t.Error(got)
	}
	if got := line(&Event{Operation: Create, Mode: 77, Result: Failure}); strings.Contains(got, "znode_type") {
		t.Error(got)
	}
}

func TestUsersAreThoseOfTheProviders(t *testing.T) {
	for _, c := range []struct {
		client []zk.Identity
		want   string
	}{
		{[]zk.Identity{ip("10.0.0.1")}, "user=10.0.0.1\tip=10.0.0.1\t"},
		{[]zk.Identity{ip("::1")}, "user=0:0:0:0:0:0:0:1\tip=0:0:0:0:0:0:0:1\t"},
		{[]zk.Identity{ip("fe80::1%eth0")}, "user=fe80:0:0:0:0:0:0:1%eth0\tip=fe80:0:0:0:0:0:0:1%eth0\t"},
		{[]zk.Identity{ip("::ffff:10.0.0.1")}, "user=10.0.0.1\tip=10.0.0.1\t"},
		{[]zk.Identity{ip("10.0.0.1"), {Scheme: "digest", ID: "bob:hash"}, {Scheme: "super"}}, "user=10.0.0.1,bob\tip=10.0.0.1\t"},
		{[]zk.Identity{ip("10.0.0.1"), {Scheme: "digest", ID: " \t:hash"}, {Scheme: "super", ID: "CN=x"}}, "user=10.0.0.1\tip=10.0.0.1\t"},
		{[]zk.Identity{ip("10.0.0.1"), {Scheme: "x509", ID: "CN=a,O=b"}}, "user=10.0.0.1,CN=a,O=b\tip=10.0.0.1\t"},
		{[]zk.Identity{{Scheme: "super"}}, ""},
	} {
		want := prefixDone + c.want + "operation=delete\tresult=success\n"
		e := &Event{Client: c.client, Operation: Delete, Mode: NoMode, Result: Success}
		got := string(appendLine(nil, e, appendHead(nil, e, "root")))
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A value that a client chooses ends neither a line, nor a field, nor a name in a list (audit-A1).
func TestNobodyForgesALine(t *testing.T) {
	evil := "x\ty\nz\r\\ \x00\x1b\x7f,\u0085\u2028\u202e\U000e0001\xff é"
	e := Event{
		Session: 1, Client: []zk.Identity{ip("10.0.0.1"), {Scheme: "digest", ID: evil + ":hash"}, {Scheme: "x509", ID: "CN=a\n,O=b"}},
		Operation: SetACL, Path: "/" + evil, Mode: NoMode, Result: Failure,
		ACL: []zk.ACL{{Perms: zk.PermRead, Identity: zk.Identity{Scheme: "sasl", ID: "bob:r,world:anyone"}}, {Perms: 0, Identity: zk.Identity{Scheme: evil, ID: "b"}}},
	}
	const text = `x\ty\nz\r\\ \x00\x1b\x7f,\u0085\u2028\u202e\U000e0001\xff é`
	name := strings.Replace(text, ",", `\,`, 1)
	want := "2026-03-01 07:05:09,042" + prefixFailed + "session=0x1\tuser=10.0.0.1," + name + `,CN=a\n,O=b` + "\tip=10.0.0.1\toperation=setAcl\tznode=/" +
		text + "\tacl=sasl:bob:r\\,world:anyone:r," + name + ":b:\tresult=failure\n"
	if got := line(&e); got != want {
		t.Errorf("%q, want\n%q", got, want)
	}
	if got := string(escape(nil, "/plain/pfad-ä", 0)); got != "/plain/pfad-ä" {
		t.Error(got)
	}
}

func FuzzEscape(f *testing.F) {
	f.Add("a\tb\n", byte(','))
	f.Fuzz(func(t *testing.T, value string, separator byte) {
		if separator != 0 {
			separator = ','
		}
		got := string(escape(nil, value, separator))
		if strings.ContainsAny(got, "\t\n\r\u0085\u2028\u2029") {
			t.Errorf("%q ends a line or a field", got)
		}
		if bare := strings.ReplaceAll(strings.ReplaceAll(got, `\\`, ""), `\,`, ""); separator != 0 && strings.Contains(bare, ",") {
			t.Errorf("%q has two names", got)
		}
	})
}

// A byte is escaped in the same way wherever it is.
func TestEveryByteIsEscapedAtEveryPlace(t *testing.T) {
	const length = 18
	for b := range 256 {
		one := string([]byte{byte(b)})
		alone := string(escape(nil, one, ','))
		if b == ',' {
			alone = one
		}
		for at := range length {
			before, after := strings.Repeat("a", at), strings.Repeat("~", length-at)
			if got := string(escape(nil, before+one+after, 0)); got != before+alone+after {
				t.Fatalf("%#x at %d: %q, want %q", b, at, got, before+alone+after)
			}
		}
	}
}

func BenchmarkEscape(b *testing.B) {
	buffer := make([]byte, 0, 64)
	for b.Loop() {
		buffer = escape(buffer[:0], "/conclave-bench/znode-0001234", 0)
	}
}

// A client that gives itself many names does not fill the log. Names that were proved are always
// logged.
func TestNamesThatAClientHasGivenItselfAreLeftOutWhereTheyAreMany(t *testing.T) {
	client := []zk.Identity{ip("10.0.0.1")}
	for i := range 29 {
		client = append(client, zk.Identity{Scheme: "digest", ID: strings.Repeat("\x01", 200) + strconv.Itoa(i) + ":hash"})
	}
	client = append(client, zk.Identity{Scheme: "sasl", ID: "alice@EXAMPLE.COM"}, zk.Identity{Scheme: "digest", ID: "bob:hash"})
	got := string(appendWho(nil, client, ""))
	if want := "user=10.0.0.1,alice@EXAMPLE.COM,bob,(29 more)\tip=10.0.0.1\t"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := string(appendWho(nil, client[1:3], "")); got != "user=(2 names)\t" {
		t.Errorf("without an address: %q", got)
	}
}
