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

	// sessionTimeoutMs outlives any run: only stepExpire ends a session.
	sessionTimeoutMs = 300_000
)

// A generator writes one script. It keeps a rough idea of which connections are
// open, so that most steps meet one; nothing depends on its being right (diff-D2).
type generator struct {
	rand  *rand.Rand
	steps []step
	open  [slotsMax]int // session of each connection slot, -1 if none
	alive []int         // sessions that can be resumed
	made  int           // requests so far, for the xids

	ensemble bool // see generateInEnsemble
}

// generate writes the script of a seed with about that many requests.
func generate(seed uint64, requests int) *script { return (&generator{}).script(seed, requests) }

// generateInEnsemble is generate for a server of an ensemble, where every write and every multi
// can be decoded: one that cannot stops an ensemble of Apache's, see docs/differences.md.
func generateInEnsemble(seed uint64, requests int) *script {
	s := (&generator{ensemble: true}).script(seed, requests)
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
		switch g.rand.IntN(40) {
		case 0, 1, 2:
			g.disturb(slot)
		case 3:
			g.quota(slot)
		default:
			g.burst(slot)
		}
	}
	return &script{seed: seed, steps: g.steps}
}

// burst writes some requests for one connection; the runner pipelines them.
func (g *generator) burst(slot int) {
	for range 1 + g.rand.IntN(12) {
		if g.open[slot] < 0 {
			return
		}
		g.request(slot)
	}
}

// prepare makes some znodes and a quota, so that the script does not begin with
// errors only.
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

// one is true once in n.
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
	g.steps = append(g.steps, step{kind: stepConnect, conn: slot, timeoutMs: timeout, noReadOnly: g.one(4)})
}

// reopen fills an empty slot: with a session that has lost its connection, by
// preference, or with a new one.
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

// resumeWrongly wants a session that the client must not get. A wrong password is for one
// that is not connected: the servers differ in what becomes of the connection.
func (g *generator) resumeWrongly(slot int) {
	session := pick(g, g.alive)
	modes := []resumeMode{resumeAhead, resumeUnknown}
	if at := slices.Index(g.open[:], session); at < 0 || at == slot {
		modes = append(modes, resumeBadPassword, resumeNoPassword)
	}
	g.resume(slot, session, pick(g, modes))
}

// resume takes a session up in a slot. Another connection that had it is gone.
func (g *generator) resume(slot, session int, mode resumeMode) {
	g.steps = append(g.steps, step{kind: stepResume, conn: slot, session: session, mode: mode,
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
	switch g.rand.IntN(12) {
	case 0, 1:
		g.steps = append(g.steps, step{kind: stepDrop, conn: slot})
		g.open[slot] = -1
	case 2, 3, 4: // the same session connects again, perhaps while it is connected
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
	}
}

// expire lets a session with an ephemeral expire. It costs a quarter of a second, so
// it is rare. The session begins with the short timeout: one that was promised a
// longer one keeps that, see docs/differences.md.
func (g *generator) expire(slot int) {
	if g.one(2) {
		return
	}
	session := len(g.steps)
	s := createOf(zk.OpCreate2, nullable{text: fmt.Sprintf("/expiring%d", session)}, g.data(), g.acl(), 1, 0)
	s.kind, s.conn, s.xid, s.mode = stepExpire, slot, 1, resumeMode(g.rand.IntN(2))
	g.steps = append(g.steps, s)
	g.open[slot] = -1
	if g.one(2) { // too late
		g.steps = append(g.steps, step{kind: stepResume, conn: slot, session: session, timeoutMs: sessionTimeoutMs})
	}
}

// forget notes that a session and its connections are no more.
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

// garbage sends what is no request. Every kind ends the connection.
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

// unknownOp sends an operation that does not exist, or not for clients. Not
// createSession and deleteContainer, which Apache does for clients too, see
// known.go.
func (g *generator) unknownOp(slot int) {
	op := pick(g, []zk.Op{zk.OpNotification, zk.OpError, zk.OpCheck, 10, 23, 99, 108, 1000, -5, -0x80000000, 0x7fffffff})
	s := pathStep(op, "/a", u32(0))
	s.text, s.alone, s.ends = fmt.Sprintf("unknown op %d", op), true, true
	g.add(slot, s)
	g.open[slot] = -1
}
