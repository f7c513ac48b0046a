//go:build linux

package main

import (
	"fmt"
	"strings"

	"github.com/conclave-project/conclave/internal/jute"
	"github.com/conclave-project/conclave/zk"
)

// multi is a transaction of some operations; one in eight is malformed.
func (g *generator) multi() step {
	return g.list(zk.OpMulti, g.subWrite, g.subRead)
}

// multiRead is some reads at once.
func (g *generator) multiRead() step {
	return g.list(zk.OpMultiRead, g.subRead, g.subWrite)
}

// list writes a multi of what good makes, and perhaps one that bad makes.
func (g *generator) list(op zk.Op, good, bad func() step) step {
	s := step{op: op}
	var texts []string
	n := g.rand.IntN(6)
	wrong := -1
	if g.one(12) && !g.ensemble {
		wrong = g.rand.IntN(n + 1)
	}
	for i := range n {
		sub := good()
		if i == wrong {
			sub = bad()
		}
		s.body = append(header(s.body, sub.op, false, -1), sub.body...)
		s.alone = s.alone || sub.alone
		texts = append(texts, sub.text)
	}
	end := "end"
	switch {
	case g.ensemble:
		s.body = header(s.body, -1, true, -1)
	case g.one(40):
		end = "no end"
	case g.one(40):
		s.body, end = header(s.body, zk.OpMultiRead, true, 7), "odd end"
	default:
		s.body = header(s.body, -1, true, -1)
	}
	s.text = fmt.Sprintf("%s {%s; %s}", op, strings.Join(texts, "; "), end)
	return s
}

func header(b []byte, op zk.Op, done bool, code int32) []byte {
	return jute.AppendInt(jute.AppendBool(jute.AppendInt(b, int32(op)), done), code)
}

// subWrite is an operation of a multi that mostly succeeds.
func (g *generator) subWrite() step {
	switch g.rand.IntN(12) {
	case 0, 1, 2, 3:
		return g.subCreate()
	case 4, 5:
		return g.delete()
	case 6, 7, 8:
		return g.setData()
	case 9, 10:
		return g.versioned(zk.OpCheck, g.target(false), nil)
	}
	return createStep(zk.OpCreate2, pick(g, sequentialPaths), g.data(), openACL, 2, 0)
}

// subRead is an operation of a multiRead.
func (g *generator) subRead() step {
	op, path := pick(g, []zk.Op{zk.OpGetData, zk.OpGetChildren}), g.path(false)
	if g.one(30) {
		op = pick(g, []zk.Op{zk.OpExists, zk.OpGetChildren2, zk.OpGetACL, zk.OpSetACL})
	}
	watch := g.one(3)
	return step{op: op, body: jute.AppendBool(path.append(nil), watch), text: fmt.Sprintf("%s %s%s", op, path, when(watch, " watch"))}
}

// subCreate is a create whose ACL list holds no null. With one, Apache fails
// the whole multi in a way that leaves what its first operations would have
// changed in the way of requests after it, see docs/differences.md. A list that is
// null, but that of createTTL, is one of what stops an ensemble of Apache's.
func (g *generator) subCreate() step {
	for {
		s, list := g.createWith()
		if !list.hasNull() && (list != nil || s.op == zk.OpCreateTTL || !g.ensemble) {
			return s
		}
	}
}
