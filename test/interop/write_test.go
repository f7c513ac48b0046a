//go:build linux && interop

package interop

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/test/probe"
	"github.com/conclave-project/conclave/test/servers"
)

// ttlMs keeps TTL znodes for longer than a chain of servers lives.
const ttlMs = 3_600_000

// A writer fills one branch of the tree and fails the test on any unexpected result.
type writer struct {
	t    *testing.T
	c    *probe.Conn
	base string
}

// write adds a branch with everything that a data directory can contain: all kinds of
// znodes, ACLs, multis, failed requests, ended and open sessions. It ends the first of the
// sessions that were left open before. It returns what the next server must find.
func write(t *testing.T, who string, server *servers.Server, turn int, open []session) leftBehind {
	t.Helper()
	w := &writer{t: t, c: superUser(t, server), base: fmt.Sprintf("/turn-%d", turn)}
	if len(open) > 0 {
		open = w.endSession(server, open)
	}
	w.create("", nil, probe.World, probe.Persistent)
	w.kinds()
	w.acls()
	w.changes()
	w.multis()
	w.failures()
	w.quota()
	w.shortSession(server)
	for n := range 2 {
		open = append(open, w.openSession(server, n))
	}
	w.many()
	tree, err := w.c.Tree("/")
	if err != nil {
		t.Fatalf("%s: %v", who, err)
	}
	w.must(w.c.Close())
	return leftBehind{tree, open}
}

func (w *writer) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// fails checks that a request was refused, and thus left an error txn.
func (w *writer) fails(err error, code probe.Code) {
	w.t.Helper()
	if !errors.Is(err, code) {
		w.t.Fatalf("error %v, expected %v", err, code)
	}
}

func (w *writer) create(name string, data []byte, acl []probe.ACL, flags int32) string {
	w.t.Helper()
	path, err := w.c.Create(w.base+name, data, acl, flags)
	w.must(err)
	return path
}

// kinds creates each kind of znode, with data of several sizes.
func (w *writer) kinds() {
	w.create("/null", nil, probe.World, probe.Persistent)
	w.create("/empty", []byte{}, probe.World, probe.Persistent)
	w.create("/large", []byte(strings.Repeat("0123456789", 20_000)), probe.World, probe.Persistent)
	w.create("/größe-名前", []byte{0, 1, 0xfe, 0xff}, probe.World, probe.Persistent)
	for range 3 {
		w.create("/sequential-", nil, probe.World, probe.PersistentSequential)
	}
	w.create("/container", []byte("c"), probe.World, probe.Container)
	w.create("/container/kid", nil, probe.World, probe.Persistent)
	w.must(w.c.CreateTTL(w.base+"/ttl", []byte("t"), probe.World, ttlMs))
	deep := ""
	for depth := range 20 {
		deep += fmt.Sprintf("/level-%d", depth)
		w.create(deep, []byte(deep), probe.World, probe.Persistent)
	}
}

// acls creates znodes with ACLs of several schemes, and changes some.
func (w *writer) acls() {
	// The digest of bob:pw.
	bob := probe.ACL{Perms: 31, Scheme: "digest", ID: "bob:ikIaKsbtGweaHnb/jKn7OHqbunM="}
	lists := [][]probe.ACL{
		{bob},
		{{Perms: 1, Scheme: "world", ID: "anyone"}, bob},
		{{Perms: 31, Scheme: "ip", ID: "127.0.0.0/8"}, {Perms: 3, Scheme: "ip", ID: "10.0.0.1"}},
		{{Perms: 0, Scheme: "world", ID: "anyone"}},
	}
	for n, list := range lists {
		name := fmt.Sprintf("/acl-%d", n)
		w.create(name, []byte("guarded"), list, probe.Persistent)
		w.create(name+"-changed", []byte("guarded"), probe.World, probe.Persistent)
		w.must(w.c.SetACL(w.base+name+"-changed", list, 0))
		w.must(w.c.SetACL(w.base+name+"-changed", lists[0], 1))
	}
}

// changes sets and deletes znodes, so versions and pzxids change.
func (w *writer) changes() {
	for n := range 5 {
		w.must(w.c.SetData(w.base+"/empty", []byte(fmt.Sprint(n)), int32(n)))
	}
	w.must(w.c.SetData(w.base+"/large", nil, -1))
	w.create("/gone", nil, probe.World, probe.Persistent)
	w.create("/gone/kid", nil, probe.World, probe.Persistent)
	w.must(w.c.Delete(w.base+"/gone/kid", 0))
	w.must(w.c.Delete(w.base+"/gone", -1))
}

// multis sends a successful multi with every kind of change, and one that fails.
func (w *writer) multis() {
	w.must(w.c.Multi(
		probe.Change{Op: probe.OpCheck, Body: probe.PathVersionBody(w.base+"/empty", 5)},
		probe.Change{Op: probe.OpCreate2, Body: probe.CreateBody(w.base+"/multi", []byte("m"), probe.World, 0)},
		probe.Change{Op: probe.OpCreate, Body: probe.CreateBody(w.base+"/multi/s-", nil, probe.World, 2)},
		probe.Change{Op: probe.OpSetData, Body: probe.SetDataBody(w.base+"/multi", []byte("changed"), 0)},
		probe.Change{Op: probe.OpCreate, Body: probe.CreateBody(w.base+"/multi/gone", nil, probe.World, 0)},
		probe.Change{Op: probe.OpDelete, Body: probe.PathVersionBody(w.base+"/multi/gone", -1)},
	))
	w.fails(w.c.Multi(
		probe.Change{Op: probe.OpCreate, Body: probe.CreateBody(w.base+"/never", nil, probe.World, 0)},
		probe.Change{Op: probe.OpDelete, Body: probe.PathVersionBody(w.base+"/none", -1)},
	), probe.NoNode)
}

// failures leave error txns in the log.
func (w *writer) failures() {
	_, err := w.c.Create(w.base+"/null", nil, probe.World, 0)
	w.fails(err, probe.NodeExists)
	w.fails(w.c.Delete(w.base+"/none", -1), probe.NoNode)
	w.fails(w.c.SetData(w.base+"/empty", nil, 99), probe.BadVersion)
}

// quota creates a branch with a quota; the server keeps its count.
func (w *writer) quota() {
	w.create("/limited", []byte("12345"), probe.World, 0)
	for _, path := range []string{"", w.base, w.base + "/limited"} {
		_, err := w.c.Create("/zookeeper/quota"+path, nil, probe.World, 0)
		if err != nil && err != probe.NodeExists {
			w.t.Fatal(err)
		}
	}
	quota := "/zookeeper/quota" + w.base + "/limited"
	_, err := w.c.Create(quota+"/zookeeper_limits", []byte("count=10,bytes=1000"), probe.World, 0)
	w.must(err)
	_, err = w.c.Create(quota+"/zookeeper_stats", []byte("count=0,bytes=0"), probe.World, 0)
	w.must(err)
	w.create("/limited/kid", []byte("678"), probe.World, 0)
}

// shortSession opens and ends a session, whose ephemerals are deleted in one txn.
func (w *writer) shortSession(server *servers.Server) {
	c, err := probe.Dial(server.Addr, sessionTimeout)
	w.must(err)
	for n := range 3 {
		_, err := c.Create(fmt.Sprintf("%s/short-%d", w.base, n), nil, probe.World, probe.Ephemeral)
		w.must(err)
	}
	w.must(c.Close())
}

// openSession opens a session with ephemerals and leaves it open.
func (w *writer) openSession(server *servers.Server, n int) session {
	c, err := probe.Dial(server.Addr, sessionTimeout)
	w.must(err)
	defer c.Cut()
	_, err = c.Create(fmt.Sprintf("%s/open-%d", w.base, n), []byte("mine"), probe.World, probe.Ephemeral)
	w.must(err)
	_, err = c.Create(fmt.Sprintf("%s/open-%d-", w.base, n), nil, probe.World, probe.EphemeralSequential)
	w.must(err)
	ephemerals, err := c.Ephemerals()
	w.must(err)
	return session{c.Session, c.Password, ephemerals}
}

// endSession ends the first of the sessions that an earlier server had opened.
func (w *writer) endSession(server *servers.Server, open []session) []session {
	c, err := probe.Attach(server.Addr, sessionTimeout, open[0].id, open[0].password)
	w.must(err)
	w.must(c.Close())
	for _, path := range open[0].ephemerals {
		_, err := w.c.Exists(path)
		w.fails(err, probe.NoNode)
	}
	return open[1:]
}

// many creates enough txns for at least one more snapshot and a new log.
func (w *writer) many() {
	for n := range 100 {
		w.create(fmt.Sprintf("/many-%03d", n), []byte{byte(n)}, probe.World, probe.Persistent)
	}
}
