package migrate

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/quorum"
)

// seen are servers of an ensemble, each as "id kind mode", and "full" behind it where the disk is.
func seen(lines ...string) (all []Server) {
	for _, line := range lines {
		f := append(strings.Fields(line), "", "")
		all = append(all, Server{ID: quorum.ID(f[0][0] - '0'), Kind: Kind(f[1]), Mode: f[2], Full: slices.Contains(f, "full")})
	}
	return all
}

// TestNextGoesFromObserversToTheLeaderAndNeverCostsTheQuorum is migrate-G1 to migrate-G3.
func TestNextGoesFromObserversToTheLeaderAndNeverCostsTheQuorum(t *testing.T) {
	set := quorum.NewMajority(1, 2, 3)
	for name, c := range map[string]struct {
		servers []Server
		to      Kind
		id      quorum.ID // 0: none is left
		left    int
		why     string
	}{
		"observers first":                       {servers: seen("1 apache leader", "2 apache follower", "3 apache follower", "4 apache observer"), to: Conclave, id: 4, left: 3},
		"then followers":                        {servers: seen("1 apache leader", "2 apache follower", "3 apache follower", "4 conclave observer"), to: Conclave, id: 2, left: 2},
		"the leader last":                       {servers: seen("1 apache leader", "2 conclave follower", "3 conclave follower"), to: Conclave, id: 1},
		"who is down is first":                  {servers: seen("1 apache leader", "2 conclave follower", "3"), to: Conclave, id: 3, left: 1},
		"back from the middle":                  {servers: seen("1 apache leader", "2 conclave follower", "3 apache follower"), to: Apache, id: 2},
		"done":                                  {servers: seen("1 conclave leader", "2 conclave follower", "3 conclave follower"), to: Conclave},
		"one that was new is down, all are new": {servers: seen("1 conclave leader", "2 conclave follower", "3"), to: Conclave, id: 3},
		"two are down":                          {servers: seen("1 apache leader", "2", "3"), to: Conclave, why: "no quorum"},
		"nobody leads":                          {servers: seen("1 apache follower", "2 apache follower", "3"), to: Conclave, why: "no server leads"},
		"another one has a full disk":           {servers: seen("1 apache leader", "2 apache follower", "3 conclave follower full"), to: Conclave, why: "can write are no quorum: the disk of server 3 is full"},
		"that one has a full disk itself":       {servers: seen("1 conclave leader", "2 conclave follower", "3 apache follower full"), to: Conclave, id: 3},
		"it stands alone":                       {servers: seen("1 apache standalone"), to: Conclave, why: "standalone"},
	} {
		step, err := Next(c.servers, set, c.to)
		if c.why != "" {
			if err == nil || !strings.Contains(err.Error(), c.why) {
				t.Errorf("%s: %v, want %q", name, err, c.why)
			}
			continue
		}
		switch {
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case step == nil && c.id != 0 || step != nil && (step.Server.ID != c.id || step.Left != c.left):
			t.Errorf("%s: %+v, want server %d and %d left", name, step, c.id, c.left)
		}
	}
}

func TestPlanHasEachServerOnceAndTheLeaderLast(t *testing.T) {
	steps, err := Plan(seen("1 apache leader", "2 apache follower", "3", "4 apache observer"), quorum.NewMajority(1, 2, 3), Conclave)
	var order []quorum.ID
	for _, s := range steps {
		order = append(order, s.Server.ID)
	}
	if want := []quorum.ID{3, 4, 2, 1}; err != nil || !reflect.DeepEqual(order, want) {
		t.Errorf("%v, %v, want %v", order, err, want)
	}
}

func TestKindsAreToldByVersion(t *testing.T) {
	for version, want := range map[string]Kind{"": "", "3.9.5-e454e8c7283100c7caec6dcae2bc82aaecb63023": Apache, "3.9.5-conclave-0.1.0": Conclave} {
		if got := KindOf(version); got != want {
			t.Errorf("%q is of %q, want %q", version, got, want)
		}
	}
}

func TestDigestsAreComparedWhereBothRememberThem(t *testing.T) {
	a := ParseHash("100000080: -5\n100000100: 7\n200000080: 9\nnonsense\n")
	b, err := ParseHashJSON([]byte(`{"digests":[{"zxid":4294967424,"digest":1,"digestVersion":2},{"zxid":4294967552,"digest":7},{"zxid":8589934720,"digest":8}]}`))
	if err != nil || len(a) != 3 || len(b) != 3 {
		t.Fatalf("%v, %v, %v", a, b, err)
	}
	if a[0x100000080] != 18446744073709551611 {
		t.Errorf("a digest with a sign is %d", a[0x100000080])
	}
	for after, want := range map[uint64]Compared{
		0:           {Equal: 1, Last: 0x100000100, Differs: 0x100000080},
		0x100000080: {Equal: 1, Last: 0x100000100, Differs: 0x200000080},
		0x200000080: {},
	} {
		if got := Compare(a, b, after); got != want {
			t.Errorf("after %x: %+v, want %+v", after, got, want)
		}
	}
}

func TestScriptsAreReadAsFarAsNoShellIsNeeded(t *testing.T) {
	got := ReadScript("java.env", `#!/bin/sh
# SERVER_JVMFLAGS="-Dnot=this"
export JVMFLAGS="-Djute.maxbuffer=8388608"   # for the large znodes
SERVER_JVMFLAGS='-Xmx1g' ; 
export SERVER_JVMFLAGS="-Dzookeeper.extendedTypesEnabled=true \
  $SERVER_JVMFLAGS ${JVMFLAGS}"
JVMFLAGS="$JVMFLAGS $(cat more)"
if [ -n "$X" ]; then
  JVMFLAGS=-Dzookeeper.snapCount=1
fi
[ -f x ] && JVMFLAGS=-Da=b
JAVA_HOME=/opt/java
JVMFLAGS="
`)
	want := Script{
		Variables: map[string]string{
			"JVMFLAGS":        "-Djute.maxbuffer=8388608",
			"SERVER_JVMFLAGS": "-Dzookeeper.extendedTypesEnabled=true    -Xmx1g -Djute.maxbuffer=8388608",
		},
		Unread: []string{
			`java.env:7: JVMFLAGS="$JVMFLAGS $(cat more)"`,
			"java.env:9: JVMFLAGS=-Dzookeeper.snapCount=1",
			"java.env:11: [ -f x ] && JVMFLAGS=-Da=b",
			`java.env:13: JVMFLAGS="`,
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

// TestNothingThatAScriptSetsIsOverlooked: neither additions to a variable nor another script; and client
// settings are not taken for the server's.
func TestNothingThatAScriptSetsIsOverlooked(t *testing.T) {
	got := ReadScript("java.env", `export CLIENT_JVMFLAGS="-Dzookeeper.client.secure=true"
export SERVER_JVMFLAGS="-Xmx1g"
SERVER_JVMFLAGS+=" -Djute.maxbuffer=8388608"
: ${JVMFLAGS:=-Dzookeeper.snapCount=1}
[ -r /etc/default/zk ] && . /etc/default/zk
source /etc/zookeeper/more.env
export SERVER_JVMFLAGS
# . /etc/none
echo "a . b"
JVMFLAGS="-Da=1"; JVMFLAGS="$JVMFLAGS -Djute.maxbuffer=1"
JVMFLAGS=-Da=1;JVMFLAGS=-Djute.maxbuffer=1
`)
	want := Script{
		Variables: map[string]string{"SERVER_JVMFLAGS": "-Xmx1g"},
		Unread: []string{
			`java.env:3: SERVER_JVMFLAGS+=" -Djute.maxbuffer=8388608"`,
			"java.env:4: : ${JVMFLAGS:=-Dzookeeper.snapCount=1}",
			"java.env:5: [ -r /etc/default/zk ] && . /etc/default/zk",
			"java.env:6: source /etc/zookeeper/more.env",
			`java.env:10: JVMFLAGS="-Da=1"; JVMFLAGS="$JVMFLAGS -Djute.maxbuffer=1"`,
			"java.env:11: JVMFLAGS=-Da=1;JVMFLAGS=-Djute.maxbuffer=1",
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

// FuzzReadScript: no script makes the program panic.
func FuzzReadScript(f *testing.F) {
	f.Add("JVMFLAGS=\"$JVMFLAGS -Da=b\"\n")
	f.Add("JVMFLAGS='")
	f.Fuzz(func(_ *testing.T, text string) { ReadScript("x", text) })
}
