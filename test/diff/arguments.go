//go:build linux

package main

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/conclave-project/conclave/internal/jute"
	"github.com/conclave-project/conclave/zk"
)

// goodPaths is a small tree, so operations often use the same znodes.
var goodPaths = []string{
	"/a", "/a", "/b", "/c", "/a/b", "/a/b", "/a/c", "/b/a", "/b/b", "/a/b/c", "/a/b/d", "/a/b/c/d",
	"/b/b/b", "/c/c", "/d", "/d/e", "/q", "/q/x", "/q/y", "/q/x/y",
	"/a/n-0000000002", "/a/n-0000000004", "/b/n-0000000003", "/a/0000000005", "/b/b/n-0000000001",
}

// sequentialPaths are paths for sequential znodes.
var sequentialPaths = []string{"/a/n-", "/a/n-", "/b/n-", "/a/", "/b/b/n-", "/q/n-", "/n-", "/", "/a/b/m-", "/no/n-"}

// plainOddPaths are invalid or strange, and returned unchanged.
var plainOddPaths = []string{
	"/", "", "a", "/a/", "//", "/a//b", "/a/./b", "/a/..", "/..", "/a/...", "/a/b.", "/a\x00b", "/a/\x01", "/a/\x1f",
	"/a/\x7f", "/a/\u0085", "/a/\u00a0", "/a/é", "/a/日本", "/a/\uf8ff", "/a/\uf900", "/a/\uffef", "/a/\ufff0",
	"/a/ b", "/zookeeper", "/zookeeper/quota", "/zookeeper/config", "/zookeeper/x", "/missing/x", "/missing",
	"/a/" + strings.Repeat("long", 100),
}

// recodedPaths are returned by Apache as different bytes, because Java's strings are not
// bytes. They are used only where they are not echoed.
var recodedPaths = []string{"/a/😀", "/a/\xff\xfe", "/a/\xc3", "/a/\xed\xa0\x80"}

// A text that may be null on the wire.
type nullable struct {
	text string
	null bool
}

func (n nullable) append(b []byte) []byte {
	if n.null {
		return jute.AppendInt(b, -1)
	}
	return jute.AppendString(b, n.text)
}

func (n nullable) String() string {
	if n.null {
		return "null"
	}
	if len(n.text) > 60 {
		return fmt.Sprintf("%q...(%d bytes)", n.text[:20], len(n.text))
	}
	return fmt.Sprintf("%q", n.text)
}

// target returns the path of a write: not null, see known.go.
func (g *generator) target(echoed bool) nullable {
	for {
		if path := g.path(echoed); !path.null {
			return path
		}
	}
}

// path returns a path that is mostly good. echoed means that the answer may contain it.
func (g *generator) path(echoed bool) nullable {
	switch n := g.rand.IntN(100); {
	case n < 86:
		return nullable{text: pick(g, goodPaths)}
	case n < 97:
		return nullable{text: pick(g, plainOddPaths)}
	case n < 98:
		return nullable{null: true}
	case !echoed:
		return nullable{text: pick(g, recodedPaths)}
	}
	return nullable{text: "/a"}
}

// data returns the data of a znode: small, empty, null, or larger.
func (g *generator) data() []byte {
	switch g.rand.IntN(8) {
	case 0:
		return nil
	case 1:
		return []byte{}
	case 2:
		return []byte(strings.Repeat("0123456789", 1+g.rand.IntN(100)))
	}
	b := make([]byte, 1+g.rand.IntN(12))
	for i := range b {
		b[i] = byte('a' + g.rand.IntN(26))
	}
	return b
}

// version returns mostly -1, else a small version, which often fits.
func (g *generator) version() int32 {
	switch g.rand.IntN(10) {
	case 0:
		return pick(g, []int32{-2, 0x7fffffff, -0x80000000, 100})
	case 1, 2, 3:
		return int32(g.rand.IntN(4))
	}
	return -1
}

// An acl is one entry in its encoded form, including nulls.
type acl struct {
	perms      int32
	scheme, id nullable
}

func entry(perms int32, scheme, id string) acl {
	return acl{perms, nullable{text: scheme}, nullable{text: id}}
}

// An aclList is a vector of entries; nil is null.
type aclList []acl

var openACL = aclList{entry(31, "world", "anyone")}

const (
	aliceID = "alice:4bFpvvRzvu0/hQHxLlNXlWb8+9I=" // not the digest of her password, but of none
	bobID   = "bob:fyVmFCwVbTJYrznoSu1koqYEYF0="   // bob:secret
)

// goodACLs can be stored; with most of them the tree stays usable.
var goodACLs = []aclList{
	openACL, openACL, openACL,
	{entry(1, "world", "anyone")},
	{entry(31, "auth", "")},
	{acl{31, nullable{text: "auth"}, nullable{null: true}}},
	{entry(31, "digest", bobID), entry(1, "world", "anyone")},
	{entry(31, "digest", aliceID), entry(16, "world", "anyone")},
	{entry(31, "digest", bobID)},
	{entry(31, "ip", "127.0.0.1")},
	{entry(31, "ip", "127.0.0.0/8")},
	{entry(31, "ip", "10.1.2.3"), entry(5, "world", "anyone")},
	{entry(31, "ip", "::1"), entry(27, "world", "anyone")},
	{entry(0, "world", "anyone")},
	{entry(95, "world", "anyone"), entry(95, "world", "anyone")},
	{entry(15, "world", "anyone"), entry(16, "auth", "ignored")},
}

// badACLs are refused.
var badACLs = []aclList{
	nil, {},
	{entry(31, "world", "somebody")},
	{entry(31, "nonsense", "x")},
	{entry(31, "digest", "nocolon")}, {entry(31, "digest", "a:b:c")}, {entry(31, "digest", "a:")}, {entry(31, "digest", ":b")},
	{entry(31, "ip", "300.1.1.1")}, {entry(31, "ip", "127.0.0.1/33")}, {entry(31, "ip", "127.0.0.1/-1")},
	{entry(31, "ip", "")}, {entry(31, "ip", "::ffff:1.2.3.4")}, {entry(31, "ip", "::1/129")}, {entry(31, "ip", "1.2.3")},
	{entry(31, "super", "")}, {entry(31, "sasl", "bob")}, {entry(31, "", "")},
	{acl{31, nullable{null: true}, nullable{text: "x"}}},
	{entry(31, "world", "anyone"), entry(31, "nonsense", "x")},
}

// acl returns an ACL that is mostly open.
func (g *generator) acl() aclList {
	switch n := g.rand.IntN(20); {
	case n < 13:
		return openACL
	case n < 18:
		return pick(g, goodACLs)
	}
	return pick(g, badACLs)
}

// hasNull reports whether a scheme or an id is null.
func (l aclList) hasNull() bool {
	return slices.ContainsFunc(l, func(a acl) bool { return a.scheme.null || a.id.null })
}

func (l aclList) append(b []byte) []byte {
	if l == nil {
		return jute.AppendInt(b, -1)
	}
	b = jute.AppendInt(b, int32(len(l)))
	for _, a := range l {
		b = a.id.append(a.scheme.append(jute.AppendInt(b, a.perms)))
	}
	return b
}

func (l aclList) String() string {
	if l == nil {
		return "null"
	}
	var parts []string
	for _, a := range l {
		parts = append(parts, fmt.Sprintf("%d:%s:%s", a.perms, a.scheme, a.id))
	}
	return "[" + strings.Join(parts, " ") + "]"
}

func u32(n int32) []byte { return jute.AppendInt(nil, n) }

// pathStep returns a request whose body is a path followed by more.
func pathStep(op zk.Op, path string, more []byte) step {
	return step{op: op, body: append(jute.AppendString(nil, path), more...), text: fmt.Sprintf("%s %q", op, path)}
}

// createStep returns any of the four creates.
func createStep(op zk.Op, path string, data []byte, list aclList, flags int32, ttl int64) step {
	return createOf(op, nullable{text: path}, data, list, flags, ttl)
}

func createOf(op zk.Op, path nullable, data []byte, list aclList, flags int32, ttl int64) step {
	b := jute.AppendInt(list.append(jute.AppendBytes(path.append(nil), data)), flags)
	text := fmt.Sprintf("%s %s data=%s acl=%s flags=%d", op, path, showData(data), list, flags)
	if op == zk.OpCreateTTL {
		b = jute.AppendLong(b, ttl)
		text += fmt.Sprintf(" ttl=%d", ttl)
	}
	return step{op: op, body: b, text: text}
}

// cut truncates a body or appends to it. Servers ignore appended bytes.
func (g *generator) cut(s step) step {
	switch {
	case len(s.body) == 0 || g.one(3):
		s.body = append(s.body[:len(s.body):len(s.body)], 1, 2, 3, 4, 5)
		s.text += " and 5 bytes more"
	default:
		s.body = s.body[:g.rand.IntN(len(s.body))]
		s.text += fmt.Sprintf(" cut to %d bytes (%s)", len(s.body), hex.EncodeToString(s.body[:min(8, len(s.body))]))
	}
	return s
}
