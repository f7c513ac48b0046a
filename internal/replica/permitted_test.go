package replica_test

import (
	"fmt"
	"testing"

	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// told counts the events of each connection, and the connections that were closed.
type told struct {
	counted
	events map[session.ConnID]int
	closed map[session.ConnID]bool
}

func (c *told) Notify(conns []session.ConnID, _ *zk.Event) {
	for _, id := range conns {
		c.events[id]++
	}
}
func (c *told) Close(id session.ConnID) { c.closed[id] = true }

// watched makes clients watch znodes that have ACLs of their own, and changes all of them in
// one multi: the parameters are the number of lists, of successive changes of each, of
// watchers, and of names of each watcher.
func watched(t *testing.T, lists, each, watchers, names int) *told {
	t.Helper()
	a := newAlone(t)
	seen := &told{events: map[session.ConnID]int{}, closed: map[session.ConnID]bool{}}
	step := func(events ...replica.Event) {
		for {
			disk := a.replica.Step(a.now, events, seen).Disk
			if len(disk) == 0 {
				return
			}
			events = []replica.Event{{Kind: replica.EventDone, Ticket: disk[len(disk)-1].Ticket}}
		}
	}
	xid := zk.Xid(0)
	ask := func(conn session.ConnID, who []zk.Identity, r zk.Request) {
		xid++
		r.Xid = xid
		step(replica.Event{Kind: replica.EventRequest, Conn: conn, Request: &r, Identities: who})
	}
	owner := []zk.Identity{{Scheme: "digest", ID: "owner:h"}}
	step(replica.Event{Kind: replica.EventAuth, Conn: 1, Identities: owner, Request: &zk.Request{Op: zk.OpAuth, Xid: zk.XidAuth}})
	var ops []zk.Request
	for i := range lists {
		path := fmt.Sprintf("/z%d", i)
		ask(1, owner, zk.Request{Op: zk.OpCreate, Path: path, ACL: []zk.ACL{
			{Perms: zk.PermAll, Identity: owner[0]},
			{Perms: zk.PermRead, Identity: zk.Identity{Scheme: "digest", ID: "reader:h"}},
			{Perms: zk.PermRead, Identity: zk.Identity{Scheme: "digest", ID: fmt.Sprintf("other%d:h", i)}},
		}})
		for range each {
			ops = append(ops, zk.Request{Op: zk.OpSetData, Path: path, Version: -1})
		}
	}
	for i := range watchers {
		conn := session.ConnID(writers + 1 + i)
		step(replica.Event{Kind: replica.EventConnect, Conn: conn, Connect: &wire.ConnectRequest{TimeoutMs: 10_000}})
		who := make([]zk.Identity, names)
		for j := range who {
			who[j] = zk.Identity{Scheme: "digest", ID: fmt.Sprintf("n%d:h", j)}
		}
		if i == 0 {
			who[names-1].ID = "reader:h"
		}
		step(replica.Event{Kind: replica.EventAuth, Conn: conn, Identities: who, Request: &zk.Request{Op: zk.OpAuth, Xid: zk.XidAuth}})
		ask(conn, who, zk.Request{Op: zk.OpAddWatch, Path: "/", Watches: zk.WatchPersistentRecursive})
	}
	seen.code = zk.OK
	ask(1, owner, zk.Request{Op: zk.OpMulti, Ops: ops})
	if seen.code != zk.OK {
		t.Fatal(seen.code)
	}
	return seen
}

// Whether a connection may read is checked once for each list, and only a connection that may
// is told.
func TestAListIsAskedOnceForATransaction(t *testing.T) {
	const changes, watchers, names = 20_000, 100, 32 // 64 million look-ups, if each change checked
	seen := watched(t, 1, changes, watchers, names)
	if len(seen.closed) != 0 || len(seen.events) != 1 || seen.events[writers+1] != changes {
		t.Errorf("%d are closed, %d told, %d events", len(seen.closed), len(seen.events), seen.events[writers+1])
	}
}

// Beyond its share a transaction checks nothing more: watchers that it would have to check are
// disconnected, and no client is told what it may not read.
func TestWatchersThatCostTooManyQuestionsAreDisconnected(t *testing.T) {
	seen := watched(t, 8_000, 1, 100, 32)
	if n := len(seen.closed); n != 100 {
		t.Errorf("%d of 100 are disconnected", n)
	}
	if len(seen.events) != 1 || seen.events[writers+1] == 0 || seen.events[writers+1] >= 8_000 {
		t.Errorf("%d are told, one of them %d times", len(seen.events), seen.events[writers+1])
	}
}
