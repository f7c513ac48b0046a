//go:build linux

package main

import (
	"fmt"
	"strings"

	"github.com/conclave-project/conclave/internal/jute"
	"github.com/conclave-project/conclave/zk"
)

// oddCredentials are not text, or hardly a name and a password.
var oddCredentials = []string{
	"\xff\xfe:x", "bob:sec\xffret", "é:é", "b\x00b:x", "super:wrong", " bob:secret", "::", ":x", strings.Repeat("x", 3000) + ":y",
}

// oddAuth sends a credential that clients do not send: the servers must agree whether it
// proves something.
func (g *generator) oddAuth(slot int) {
	scheme, credential := nullable{text: "digest"}, []byte(pick(g, oddCredentials))
	switch g.rand.IntN(6) {
	case 0:
		scheme.null = true
	case 1:
		scheme.text = pick(g, []string{"DIGEST", "IP", " digest", "x509", "sasl", "ensemble"})
	case 2:
		scheme.text = pick(g, []string{"digest", "ip"})
		credential = nil
	case 3:
		scheme.text = "ip"
	}
	b := jute.AppendBytes(scheme.append(jute.AppendInt(nil, pick(g, []int32{0, 1, -1, 100}))), credential)
	s := step{op: zk.OpAuth, xid: pick(g, []zk.Xid{zk.XidAuth, 0}), body: b, alone: true, text: fmt.Sprintf("auth %s %q", scheme, credential)}
	if g.one(4) {
		s = g.cut(s)
	}
	g.add(slot, s)
}
