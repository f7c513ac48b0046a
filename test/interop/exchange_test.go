//go:build linux && interop

package interop

import (
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/test/probe"
	"github.com/conclave-project/conclave/test/servers"
)

// sessionTimeout outlives the longest pause between two servers of a chain.
const sessionTimeout = 60 * time.Second

// guest returns the kind of server that is tested against Apache's.
func guest(t *testing.T) servers.Kind {
	t.Helper()
	chosen, err := servers.Chosen("INTEROP_KIND")
	if err != nil {
		t.Fatal(err)
	}
	return chosen
}

func TestDirectoriesGoFromServerToServer(t *testing.T) {
	g := guest(t)
	for _, version := range []string{servers.Apache38, servers.Apache39} {
		apache := servers.Apache(version)
		for _, method := range []string{"plain", "gz", "snappy"} {
			t.Run(apache.Name()+" first "+method, func(t *testing.T) {
				passOn(t, method, apache, g, apache)
			})
			t.Run(apache.Name()+" second "+method, func(t *testing.T) {
				passOn(t, method, g, apache, g)
			})
		}
	}
}

// passOn lets several servers serve the same directory, one after the other. Each must show
// what the previous one left, take over its sessions, and write more. The first is stopped,
// the later ones are killed.
func passOn(t *testing.T, method string, chain ...servers.Kind) {
	config := []string{"snapCount=60", "maxSessionTimeout=60000",
		"DigestAuthenticationProvider.superDigest=super:/49OUaS/Rm5CIudE7EhYoMwy+PY="}
	if method != "plain" {
		config = append(config, "snapshot.compression.method="+method)
	}
	dir := t.TempDir()
	var left leftBehind
	for turn, kind := range chain {
		who := fmt.Sprintf("turn %d, %s", turn, kind.Name())
		server, err := servers.Start(t.Context(), kind, servers.Options{DataDir: dir, Config: config})
		if err != nil {
			t.Fatalf("%s: %v", who, err)
		}
		if turn > 0 {
			left.compare(t, who, server)
		}
		left = write(t, who, server, turn, left.sessions)
		checkDigests(t, who, server)
		if turn == 0 {
			err = server.Stop()
		} else {
			err = server.Kill()
		}
		if err != nil {
			t.Errorf("%s: %v", who, err)
		}
		checkLoggedDigest(t, who, dir, left.tree)
	}
	checkSnapshots(t, dir, method)
}

// leftBehind is what the next server must find.
type leftBehind struct {
	tree     map[string]probe.Znode
	sessions []session
}

// A session that was open when its server ended.
type session struct {
	id         int64
	password   []byte
	ephemerals []string
}

// compare reads everything from the server and takes over the sessions.
func (l leftBehind) compare(t *testing.T, who string, server *servers.Server) {
	t.Helper()
	admin := superUser(t, server)
	found, err := admin.Tree("/")
	if err != nil {
		t.Fatalf("%s: %v", who, err)
	}
	for _, difference := range differences(l.tree, found) {
		t.Errorf("%s: %s", who, difference)
	}
	for _, s := range l.sessions {
		c, err := probe.Attach(server.Addr, sessionTimeout, s.id, s.password)
		if err != nil {
			t.Errorf("%s: session %x: %v", who, s.id, err)
			continue
		}
		ephemerals, err := c.Ephemerals()
		if err != nil || c.Session != s.id || !reflect.DeepEqual(ephemerals, s.ephemerals) {
			t.Errorf("%s: session %x has become %x with ephemerals %q, not %q: %v", who, s.id, c.Session,
				ephemerals, s.ephemerals, err)
		}
		c.Cut()
	}
	stolen := append([]byte{}, l.sessions[0].password...)
	stolen[5] ^= 1
	if _, err := probe.Attach(server.Addr, sessionTimeout, l.sessions[0].id, stolen); err != probe.ErrRefused {
		t.Errorf("%s: a session with a wrong password: %v", who, err)
	}
	admin.Cut()
}

// differences returns the first few differences between two trees, one per line.
func differences(want, got map[string]probe.Znode) []string {
	var lines []string
	for path, w := range want {
		if g, ok := got[path]; !ok {
			lines = append(lines, path+" is missing")
		} else if !reflect.DeepEqual(w, g) {
			w.Data, g.Data = shorten(w.Data), shorten(g.Data)
			lines = append(lines, fmt.Sprintf("%s\n    was %+v\n     is %+v", path, w, g))
		}
	}
	for path := range got {
		if _, ok := want[path]; !ok {
			lines = append(lines, path+" has appeared")
		}
	}
	sort.Strings(lines)
	return lines[:min(len(lines), 12)]
}

func shorten(data string) string { return data[:min(len(data), 40)] }

// superUser opens a connection that may read everything.
func superUser(t *testing.T, server *servers.Server) *probe.Conn {
	t.Helper()
	c, err := probe.Dial(server.Addr, sessionTimeout)
	if err == nil {
		err = c.AddAuth("digest", "super:interop")
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// checkDigests checks on the server whether a replayed txn or a snapshot had a digest other
// than the recorded one.
func checkDigests(t *testing.T, who string, server *servers.Server) {
	t.Helper()
	mntr, err := servers.FourLetterWord(server.Addr, "mntr")
	if err != nil {
		t.Errorf("%s: mntr: %v", who, err)
	}
	for line := range strings.Lines(mntr) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if name == "zk_digest_mismatches_count" && value != "0" {
			t.Errorf("%s: %s digests do not match", who, value)
		}
	}
	for line := range strings.Lines(server.Log()) {
		if lower := strings.ToLower(line); strings.Contains(lower, "digest") && strings.Contains(lower, "mismatch") ||
			strings.Contains(lower, "not matching") {
			t.Errorf("%s: log: %s", who, line)
		}
	}
}

// checkSnapshots ensures that the run has used the snapshot method that it is named after.
func checkSnapshots(t *testing.T, dir, method string) {
	files, err := os.ReadDir(dir + "/version-2")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, file := range files {
		name, ok := strings.CutPrefix(file.Name(), "snapshot.")
		if !ok {
			continue
		}
		count++
		if _, suffix, _ := strings.Cut(name, "."); method == "plain" && suffix != "" ||
			method != "plain" && suffix != method {
			t.Errorf("snapshot %s is not %s", file.Name(), method)
		}
	}
	if count < 3 {
		t.Errorf("only %d snapshots in the directory", count)
	}
}
