//go:build linux

package main

import (
	"fmt"

	"github.com/conclave-project/conclave/internal/jute"
	"github.com/conclave-project/conclave/zk"
)

// A choice is a possible next request, with its relative frequency.
type choice struct {
	weight int
	make   func(*generator) step
}

// choices are the requests that leave the connection open.
var choices = []choice{
	{20, (*generator).create},
	{12, (*generator).delete},
	{10, (*generator).setData},
	{12, (*generator).read},
	{10, (*generator).watchedRead},
	{4, (*generator).getACL},
	{4, (*generator).setACL},
	{12, (*generator).multi},
	{6, (*generator).chain},
	{4, (*generator).multiRead},
	{5, (*generator).addWatch},
	{5, (*generator).removeWatches},
	{2, (*generator).sync},
	{2, (*generator).count},
	{2, (*generator).ephemerals},
	{2, (*generator).noBody},
	{1, (*generator).reconfig},
	{1, (*generator).sasl},
}

var weightSum = func() (sum int) {
	for _, c := range choices {
		sum += c.weight
	}
	return sum
}()

// request adds one request, sometimes with a body that is too short or too long.
func (g *generator) request(slot int) {
	n := g.rand.IntN(weightSum)
	for _, c := range choices {
		if n -= c.weight; n < 0 {
			s := c.make(g)
			if g.one(40) && s.op != zk.OpSASL && !(g.ensemble && s.op.IsWrite()) {
				s = g.cut(s)
			} else if g.one(30) && !g.ensemble && s.op != zk.OpSASL && s.op != zk.OpCreateTTL { // see flags
				s = g.misfit(s)
			}
			g.add(slot, s)
			return
		}
	}
}

var createOps = []zk.Op{zk.OpCreate, zk.OpCreate, zk.OpCreate, zk.OpCreate2, zk.OpCreate2, zk.OpCreateContainer, zk.OpCreateTTL}

func (g *generator) create() step {
	s, _ := g.createWith()
	return s
}

// createWith also returns the ACL.
func (g *generator) createWith() (step, aclList) {
	op := pick(g, createOps)
	flags, ttl := g.flags(op)
	path := g.target(true)
	if flags >= 2 && flags != 4 && !g.one(4) {
		path = nullable{text: pick(g, sequentialPaths)}
	}
	data, list := g.data(), g.acl()
	s := createOf(op, path, data, list, flags, ttl)
	s.alone = underQuota(path.text) || op == zk.OpCreateContainer && (flags == 1 || flags == 3) // see docs/differences.md
	return s, list
}

// flags returns flags that mostly fit the operation. It never returns flags 0 to 4 with a
// negative ttl for createTTL: that ends an Apache server, see known.go.
func (g *generator) flags(op zk.Op) (int32, int64) {
	odd := g.one(12) && !g.ensemble
	switch {
	case op == zk.OpCreateTTL:
		ttl := pick(g, []int64{1, 1000, 60_000, zk.TTLMax})
		flags := pick(g, []int32{5, 6})
		if odd {
			flags = int32(g.rand.IntN(9))
			ttl = pick(g, []int64{0, 1, zk.TTLMax, zk.TTLMax + 1, 1 << 62})
			if flags >= 5 {
				ttl = pick(g, []int64{0, -1, -5, zk.TTLMax + 1})
			}
		}
		return flags, ttl
	case odd:
		return pick(g, []int32{-1, 4, 5, 6, 7, 100, 1 << 30}), 0
	case op == zk.OpCreateContainer:
		return pick(g, []int32{4, 4, 4, 0, 1, 2, 3}), 0
	}
	return pick(g, []int32{0, 0, 0, 1, 1, 2, 3}), 0
}

// underQuota reports whether a change of path may be checked against a quota. Apache
// compares with the applied state and ignores changes in progress, so a pipelined change
// races with the ones before it.
func underQuota(path string) bool {
	return path == "/q" || len(path) > 2 && path[:3] == "/q/"
}

func (g *generator) delete() step {
	path := g.target(false)
	return g.versioned(zk.OpDelete, path, nil)
}

func (g *generator) versioned(op zk.Op, path nullable, middle []byte) step {
	version := g.version()
	b := jute.AppendInt(append(path.append(nil), middle...), version)
	return step{op: op, body: b, text: fmt.Sprintf("%s %s version=%d", op, path, version)}
}

func (g *generator) setData() step {
	path, data := g.target(false), g.data()
	s := g.versioned(zk.OpSetData, path, jute.AppendBytes(nil, data))
	s.text += " data=" + showData(data)
	s.alone = underQuota(path.text)
	return s
}

var readOps = []zk.Op{zk.OpExists, zk.OpGetData, zk.OpGetChildren, zk.OpGetChildren2}

func (g *generator) read() step { return g.reading(false) }

func (g *generator) watchedRead() step { return g.reading(true) }

func (g *generator) reading(watch bool) step {
	op, path := pick(g, readOps), g.path(watch)
	if g.one(15) {
		path = nullable{text: pick(g, []string{"/zookeeper/quota/q/zookeeper_stats", "/zookeeper/quota/q/zookeeper_limits"})}
	}
	return step{op: op, body: jute.AppendBool(path.append(nil), watch),
		text: fmt.Sprintf("%s %s%s", op, path, when(watch, " watch"))}
}

func (g *generator) onPath(op zk.Op, path nullable) step {
	return step{op: op, body: path.append(nil), text: fmt.Sprintf("%s %s", op, path)}
}

func (g *generator) getACL() step { return g.onPath(zk.OpGetACL, g.path(false)) }

func (g *generator) sync() step { return g.onPath(zk.OpSync, g.target(true)) }

// count never asks for an empty path, see known.go.
func (g *generator) count() step {
	path := g.path(false)
	if !path.null && path.text == "" {
		path.text = "/"
	}
	return g.onPath(zk.OpGetAllChildrenNumber, path)
}

func (g *generator) ephemerals() step {
	path := g.path(true)
	if g.one(2) {
		path = pick(g, []nullable{{text: "/"}, {text: ""}, {text: " "}, {null: true}, {text: "/a/n"}, {text: "a"}})
	}
	return g.onPath(zk.OpGetEphemerals, path)
}

// setACL is awaited, see below. It does not lock the root: after that nothing could be
// done.
func (g *generator) setACL() step {
	path, list := g.target(false), g.acl()
	if path.text == "/" || path.text == "" {
		list = openACL
	}
	s := g.versioned(zk.OpSetACL, path, list.append(nil))
	s.text += fmt.Sprintf(" acl=%s", list)
	// Apache decides pipelined writes by the old ACL until the new one is applied, so their
	// results are a race.
	s.alone = true
	return s
}

// watchPath returns a path that is not null, see known.go. It is mostly one of a few, so
// removals find what was added.
func (g *generator) watchPath(echoed bool) nullable {
	if path := g.path(echoed); !path.null && g.one(2) {
		return path
	}
	return nullable{text: goodPaths[g.rand.IntN(6)]}
}

func (g *generator) addWatch() step {
	path, mode := g.watchPath(true), pick(g, []int32{0, 0, 1, 1, 2, -1})
	return step{op: zk.OpAddWatch, body: jute.AppendInt(path.append(nil), mode),
		text: fmt.Sprintf("addWatch %s mode=%d", path, mode)}
}

func (g *generator) removeWatches() step {
	op := pick(g, []zk.Op{zk.OpRemoveWatches, zk.OpRemoveWatches, zk.OpCheckWatches})
	path, kind := g.watchPath(false), pick(g, []int32{1, 2, 3, 3, 4, 5, 0, 6, -1})
	return step{op: op, body: jute.AppendInt(path.append(nil), kind), text: fmt.Sprintf("%s %s type=%d", op, path, kind)}
}

// noBody returns an operation that consists only of a header.
func (g *generator) noBody() step {
	op := pick(g, []zk.Op{zk.OpPing, zk.OpWhoAmI, zk.OpWhoAmI})
	s := step{op: op, text: op.String()}
	if op == zk.OpPing {
		s.xid = zk.XidPing
	}
	return s
}

func (g *generator) reconfig() step {
	joining, leaving, members := g.text(), g.text(), g.text()
	b := jute.AppendLong(members.append(leaving.append(joining.append(nil))), -1)
	return step{op: zk.OpReconfig, body: b, text: fmt.Sprintf("reconfig join=%s leave=%s members=%s", joining, leaving, members)}
}

func (g *generator) text() nullable {
	return pick(g, []nullable{{null: true}, {}, {text: "server.1=127.0.0.1:1:2:participant;3"}, {text: "1"}})
}

func (g *generator) sasl() step {
	return step{op: zk.OpSASL, body: jute.AppendBytes(nil, pick(g, [][]byte{{}, []byte("token")})), text: "sasl", alone: true}
}

// auth adds an identity, or is refused, which ends the connection.
func (g *generator) auth(slot int) {
	known := []struct{ scheme, credential string }{
		{"digest", "bob:secret"}, {"digest", "alice:a"}, {"digest", "bob:wrong"}, {"digest", "a:b:c"}, {"digest", "nocolon"},
		{"digest", ""}, {"digest", ":"}, {"ip", "10.1.2.3"}, {"ip", ""}, {"digest", "super:admin"},
	}
	refused := []struct{ scheme, credential string }{{"nonsense", "x"}, {"world", "anyone"}, {"auth", ""}, {"", ""}, {"super", "x"}}
	c := pick(g, known)
	bad := g.one(8)
	if bad {
		c = pick(g, refused)
		g.open[slot] = -1
	}
	b := jute.AppendBytes(jute.AppendString(jute.AppendInt(nil, 0), c.scheme), []byte(c.credential))
	xid := zk.XidAuth
	if g.one(3) {
		xid = 0 // numbered like other requests, as go-zookeeper does
	}
	g.add(slot, step{op: zk.OpAuth, xid: xid, body: b, alone: true, ends: bad, text: fmt.Sprintf("auth %s %q", c.scheme, c.credential)})
}

// quota creates, changes, reads or removes the quota of /q.
func (g *generator) quota(slot int) {
	limits := pick(g, []string{
		"count=3,bytes=20", "count=-1,bytes=-1=;byteHardLimit=60;countHardLimit=4",
		"count=2,bytes=-1=;countHardLimit=3", "count=-1,bytes=10=;byteHardLimit=30",
	})
	const at = "/zookeeper/quota/q"
	var steps []step
	switch g.rand.IntN(4) {
	case 0:
		steps = []step{pathStep(zk.OpDelete, at+"/zookeeper_limits", u32(-1)),
			pathStep(zk.OpDelete, at+"/zookeeper_stats", u32(-1)), pathStep(zk.OpDelete, at, u32(-1))}
	case 1:
		steps = []step{pathStep(zk.OpSetData, at+"/zookeeper_limits", append(jute.AppendBytes(nil, []byte(limits)), u32(-1)...))}
		steps[0].text += " data=" + limits
	default:
		steps = []step{createStep(zk.OpCreate, at, []byte{}, openACL, 0, 0),
			createStep(zk.OpCreate, at+"/zookeeper_limits", []byte(limits), openACL, 0, 0),
			createStep(zk.OpCreate, at+"/zookeeper_stats", []byte("count=0,bytes=0"), openACL, 0, 0)}
	}
	steps = append(steps, pathStep(zk.OpGetData, at+"/zookeeper_stats", []byte{0}))
	for _, s := range steps {
		s.alone = true
		g.add(slot, s)
	}
}

// setWatches is the request that a client sends after it has reconnected.
func (g *generator) setWatches(slot int) {
	if g.one(3) {
		return
	}
	op, lists := zk.OpSetWatches, 3
	if g.one(2) {
		op, lists = zk.OpSetWatches2, 5
	}
	back := pick(g, []int64{0, 0, 1, 3, 10, 1000})
	b := jute.AppendLong(nil, 0)
	text := op.String()
	for i := range lists {
		var list []nullable
		for range g.rand.IntN(4) {
			list = append(list, nullable{text: pick(g, goodPaths)})
		}
		if i == 0 && g.one(15) { // only the first one, see known.go
			b = jute.AppendInt(b, -1)
			text += " null"
			continue
		}
		b = jute.AppendInt(b, int32(len(list)))
		for _, p := range list {
			b = p.append(b)
		}
		text += fmt.Sprintf(" %s", list)
	}
	xid := zk.XidSetWatches
	if g.one(3) {
		xid = 0
	}
	g.add(slot, step{op: op, xid: xid, body: b, text: text, seen: true, back: back})
}
