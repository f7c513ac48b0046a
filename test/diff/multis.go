//go:build linux

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/conclave-project/conclave/internal/jute"
	"github.com/conclave-project/conclave/zk"
)

// multi returns a transaction with some operations; one in eight is malformed.
func (g *generator) multi() step {
	return g.list(zk.OpMulti, g.subWrite, g.subRead)
}

// multiRead returns several reads in one request.
func (g *generator) multiRead() step {
	return g.list(zk.OpMultiRead, g.subRead, g.subWrite)
}

// list returns a multi of operations made by good, and perhaps one made by bad.
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
		for op == zk.OpMulti && wrong == 0 && sub.op.IsCreate() { // after a read: its ACL may be null, see docs/differences.md
			sub = good()
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

// chain returns a transaction on znodes of its own, whose operations build on each other, so
// that most chains are carried out.
func (g *generator) chain() step {
	top, exists, created := fmt.Sprintf("/chain%d", g.made), false, 0
	var below []string
	s := step{op: zk.OpMulti}
	var texts []string
	add := func(sub step) {
		s.body = append(header(s.body, sub.op, false, -1), sub.body...)
		texts = append(texts, sub.text)
	}
	create := func(path string, named string, flags int32) {
		add(createStep(pick(g, createOps[:5]), path, g.data(), openACL, flags, 0))
		below, created = append(below, named), created+1
	}
	for range 3 + g.rand.IntN(12) {
		child := fmt.Sprintf("%s/%d", top, g.rand.IntN(2))
		at := slices.Index(below, child)
		switch n := g.rand.IntN(10); {
		case !exists || g.one(40):
			add(createStep(pick(g, createOps[:5]), top, g.data(), openACL, 0, 0))
			exists, created = true, 0
		case n < 4 && at < 0:
			create(child, child, pick(g, []int32{0, 1}))
		case n == 4:
			create(top+"/n-", fmt.Sprintf("%s/n-%010d", top, created), pick(g, []int32{2, 3}))
		case n == 5:
			add(pathStep(zk.OpSetData, pick(g, append(below, top)), append(jute.AppendBytes(nil, g.data()), u32(-1)...)))
		case n == 6:
			add(pathStep(zk.OpCheck, pick(g, append(below, top)), u32(pick(g, []int32{-1, -1, 0}))))
		case len(below) > 0:
			at = g.rand.IntN(len(below))
			add(pathStep(zk.OpDelete, below[at], u32(-1)))
			below = slices.Delete(below, at, at+1)
		default:
			add(pathStep(zk.OpDelete, top, u32(-1)))
			exists = false
		}
	}
	s.body, s.text = header(s.body, -1, true, -1), fmt.Sprintf("%s {%s; end}", s.op, strings.Join(texts, "; "))
	return s
}

func header(b []byte, op zk.Op, done bool, code int32) []byte {
	return jute.AppendInt(jute.AppendBool(jute.AppendInt(b, int32(op)), done), code)
}

// subWrite returns an operation of a multi that usually succeeds.
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

// subRead returns an operation of a multiRead.
func (g *generator) subRead() step {
	op, path := pick(g, []zk.Op{zk.OpGetData, zk.OpGetChildren}), g.path(false)
	if g.one(30) {
		op = pick(g, []zk.Op{zk.OpExists, zk.OpGetChildren2, zk.OpGetACL, zk.OpSetACL})
	}
	watch := g.one(3)
	return step{op: op, body: jute.AppendBool(path.append(nil), watch), text: fmt.Sprintf("%s %s%s", op, path, when(watch, " watch"))}
}

// subCreate returns a create without nulls in its ACL. With a null, Apache fails the whole
// multi but leaves the changes of its first operations in the way of later requests, see
// docs/differences.md. A null ACL, except in a createTTL, is one of the things that stop an
// ensemble of Apache's.
func (g *generator) subCreate() step {
	for {
		s, list := g.createWith()
		if !list.hasNull() && (list != nil || s.op == zk.OpCreateTTL || !g.ensemble) {
			return s
		}
	}
}
