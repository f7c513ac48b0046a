//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/conclave-project/conclave/zk"
)

const (
	// slotsMax is how many connections a script uses at once.
	slotsMax = 5

	// sessionTimeoutMs outlives any run: sessions expire only by stepExpire.
	sessionTimeoutMs = 300_000
)

// A generator writes one script. It tracks roughly which connections are open, so most
// steps find an open one; nothing depends on its being right (diff-D2).
type generator struct {
	rand  *rand.Rand
	steps []step
	open  [slotsMax]int // session of each connection slot, -1 if none
	alive []int         // sessions that can be resumed
	made  int           // requests so far, for the xids

	ensemble bool // see generateInEnsemble
	servers  int
	where    [slotsMax]int // server of each connection slot
}

// generate returns the script of a seed with about the given number of requests.
func generate(seed uint64, requests int) *script {
	return (&generator{servers: 1}).script(seed, requests)
}

// generateInEnsemble is generate for some servers of an ensemble, the leader first, where every write and every
// multi can be decoded: one that cannot be decoded stops an ensemble of Apache's, see
// docs/differences.md.
func generateInEnsemble(seed uint64, requests, among int) *script {
	s := (&generator{ensemble: true, servers: among}).script(seed, requests)
	s.ensemble = true
	return s
}

func (g *generator) script(seed uint64, requests int) *script {
	g.rand = rand.New(rand.NewPCG(seed, 0xC0C1A7E))
	for slot := range g.open {
		g.open[slot] = -1
	}
	g.connect(0)
	g.prepare()
	for g.made < requests {
		slot := g.rand.IntN(slotsMax)
		if g.open[slot] < 0 {
			g.reopen(slot)
			continue
		}
		if g.servers > 1 && g.one(6) { // the session moves
			g.resume(g.rand.IntN(slotsMax), g.open[slot], resumeGood)
			continue
		}
		switch g.rand.IntN(40) {
		case 0, 1, 2:
			g.disturb(slot)
		case 3:
			g.quota(slot)
		case 4:
			g.restart()
		default:
			g.burst(slot)
		}
	}
	return &script{seed: seed, steps: g.steps}
}

// burst adds some requests on one connection; the runner pipelines them.
func (g *generator) burst(slot int) {
	for range 1 + g.rand.IntN(12) {
		if g.open[slot] < 0 {
			return
		}
		g.request(slot)
	}
}

// prepare creates some znodes and a quota, so the script does not begin with nothing but
// errors.
func (g *generator) prepare() {
	for _, path := range []string{"/a", "/b", "/a/b", "/q", "/q/x"} {
		g.add(0, createStep(zk.OpCreate, path, []byte("x"), openACL, 0, 0))
	}
	g.quota(0)
}

// add appends a request on a connection and gives it an xid.
func (g *generator) add(slot int, s step) {
	g.made++
	s.kind, s.conn = stepRequest, slot
	switch {
	case s.xid != 0:
	case g.one(100):
		s.xid = pick(g, []zk.Xid{0x7fffffff, 1, -3, -1000, -0x80000000})
	default:
		s.xid = zk.Xid(g.made)
	}
	g.steps = append(g.steps, s)
}

// one returns true once in n times.
func (g *generator) one(n int) bool { return g.rand.IntN(n) == 0 }

func pick[T any](g *generator, from []T) T { return from[g.rand.IntN(len(from))] }

// connect opens a new session in a slot.
func (g *generator) connect(slot int) {
	timeout := int32(sessionTimeoutMs)
	if g.one(6) {
		timeout = pick(g, []int32{600_000, 599_999, 0x7fffffff, 600_001})
	}
	g.open[slot] = len(g.steps)
	g.alive = append(g.alive, len(g.steps))
	g.where[slot] = g.server()
	g.steps = append(g.steps, step{kind: stepConnect, conn: slot, server: g.where[slot], timeoutMs: timeout, noReadOnly: g.one(4)})
}

// reopen fills an empty slot, preferably with a session that has lost its connection, else
// with a new one.
func (g *generator) reopen(slot int) {
	var waiting []int
	for _, session := range g.alive {
		if !slices.Contains(g.open[:], session) {
			waiting = append(waiting, session)
		}
	}
	if len(waiting) == 0 || len(g.alive) < slotsMax && g.one(3) {
		g.connect(slot)
		return
	}
	g.resume(slot, pick(g, waiting), resumeGood)
}

// resumeWrongly tries to resume a session that the client must not get. A wrong password is
// tried only on a session that is not connected: the servers differ in what happens to its
// connection.
func (g *generator) resumeWrongly(slot int) {
	session := pick(g, g.alive)
	modes := []resumeMode{resumeAhead, resumeUnknown}
	if at := slices.Index(g.open[:], session); at < 0 || at == slot {
		modes = append(modes, resumeBadPassword, resumeNoPassword)
	}
	g.resume(slot, session, pick(g, modes))
}

// server returns one of the servers. With one server there is nothing to draw.
func (g *generator) server() int {
	if g.servers == 1 {
		return 0
	}
	return g.rand.IntN(g.servers)
}

// resume resumes a session in a slot, and leaves its earlier connection.
func (g *generator) resume(slot, session int, mode resumeMode) {
	server := g.server()
	left := -1
	if mode == resumeGood {
		left = g.leave(slot, session, server)
	}
	g.attach(slot, session, server, mode)
	if left >= 0 {
		g.add(left, alone(pick(g, lateRequests)(g)))
		g.steps = append(g.steps, step{kind: stepDrop, conn: left})
	}
}

// lateRequests arrive on the former connection of a session. A multi of no operations is left
// out, see docs/differences.md.
var lateRequests = []func(*generator) step{(*generator).create, (*generator).setData, (*generator).delete, (*generator).read}

// leave drops the connection of a session that moves to another server. Half of those to a
// learner it returns instead, -1 for none: such a connection may read, but a write ends it.
// The leader closes its own, see docs/differences.md.
func (g *generator) leave(slot, session, server int) (left int) {
	at := slices.Index(g.open[:], session)
	if at < 0 || at == slot || g.where[at] == server {
		return -1
	}
	if g.where[at] > 0 && g.one(2) {
		return at
	}
	g.steps = append(g.steps, step{kind: stepDrop, conn: at})
	return -1
}

// attach resumes a session at a server. Its earlier connection, if there is one, is gone.
func (g *generator) attach(slot, session, server int, mode resumeMode) {
	g.where[slot] = server
	g.steps = append(g.steps, step{kind: stepResume, conn: slot, server: server, session: session, mode: mode,
		timeoutMs: sessionTimeoutMs, noReadOnly: g.one(4)})
	g.open[slot] = -1
	if mode == resumeAhead || mode == resumeUnknown {
		return
	}
	for other := range g.open {
		if g.open[other] == session {
			g.open[other] = -1
		}
	}
	if mode == resumeGood {
		g.open[slot] = session
		g.setWatches(slot)
	}
}

// disturb does something to a connection or session as a whole.
func (g *generator) disturb(slot int) {
	session := g.open[slot]
	switch g.rand.IntN(15) {
	case 0, 1:
		g.steps = append(g.steps, step{kind: stepDrop, conn: slot})
		g.open[slot] = -1
	case 2, 3, 4: // the same session reconnects, perhaps while it is connected
		g.resume(g.rand.IntN(slotsMax), session, resumeGood)
	case 5:
		g.resumeWrongly(g.rand.IntN(slotsMax))
	case 6:
		g.add(slot, step{op: zk.OpCloseSession, text: "closeSession", alone: true, ends: true})
		g.forget(session)
	case 7:
		g.expire(slot)
	case 8:
		g.garbage(slot)
	case 9, 10:
		g.auth(slot)
	case 11:
		g.unknownOp(slot)
	case 12, 13:
		g.oddAuth(slot)
	case 14:
		if g.ensemble {
			return // the zxids of its servers are not compared everywhere
		}
		for range 6 {
			g.hello()
		}
	}
}

// restart kills the server and starts it again, which takes Apache's a second. The server of
// an ensemble would lose its seat.
func (g *generator) restart() {
	if g.ensemble || !g.one(3) {
		return
	}
	g.steps = append(g.steps, step{kind: stepRestart})
	for slot := range g.open {
		g.open[slot] = -1
	}
}

// expire lets a session with an ephemeral expire. It costs a quarter of a second, so it is
// rare. The session begins with the short timeout: a session that was promised a longer one
// keeps that, see docs/differences.md.
func (g *generator) expire(slot int) {
	if g.one(2) {
		return
	}
	session := len(g.steps)
	s := createOf(zk.OpCreate2, nullable{text: fmt.Sprintf("/expiring%d", session)}, g.data(), g.acl(), 1, 0)
	s.kind, s.conn, s.xid, s.mode = stepExpire, slot, 1, resumeMode(g.rand.IntN(2))
	s.server = g.server()
	g.steps = append(g.steps, s)
	g.open[slot] = -1
	if g.one(2) { // too late
		g.steps = append(g.steps, step{kind: stepResume, conn: slot, session: session, timeoutMs: sessionTimeoutMs})
	}
}

// forget notes that a session and its connections are gone.
func (g *generator) forget(session int) {
	for slot := range g.open {
		if g.open[slot] == session {
			g.open[slot] = -1
		}
	}
	for i, s := range g.alive {
		if s == session {
			g.alive = append(g.alive[:i:i], g.alive[i+1:]...)
			return
		}
	}
}

// garbage sends something that is not a request. Every kind ends the connection.
func (g *generator) garbage(slot int) {
	kinds := []struct {
		text string
		body []byte
	}{
		{"a length above the limit", []byte{0, 0x10, 0, 0}},
		{"a negative length", []byte{0xff, 0xff, 0xff, 0xff}},
		{"a frame of no bytes", []byte{0, 0, 0, 0}},
		{"half a request header", []byte{0, 0, 0, 5, 0, 0, 0, 1, 0}},
		{"a four-letter word after the handshake", []byte("ruok")},
	}
	k := pick(g, kinds)
	g.steps = append(g.steps, step{kind: stepBytes, conn: slot, text: k.text, body: k.body})
	g.open[slot] = -1
}

// unknownOp sends an operation that does not exist, or not for clients. It leaves out
// createSession and deleteContainer, which Apache carries out for clients, too, see
// known.go.
func (g *generator) unknownOp(slot int) {
	op := pick(g, []zk.Op{zk.OpNotification, zk.OpError, zk.OpCheck, 10, 23, 99, 108, 1000, -5, -0x80000000, 0x7fffffff})
	s := pathStep(op, "/a", u32(0))
	s.text, s.alone, s.ends = fmt.Sprintf("unknown op %d", op), true, true
	g.add(slot, s)
	g.open[slot] = -1
}
