//go:build linux

package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/conclave-project/conclave/internal/jute"
	"github.com/conclave-project/conclave/zk"
)

// matrixRows has a row for each operation that a client may send. The row has the requests
// about a znode path with a child c that need a permission of one of the two, or the reason
// why there are none.
var matrixRows = map[zk.Op]struct {
	about func(path string) []step
	why   string
}{
	zk.OpCreate:               {about: creating(zk.OpCreate, 0)},
	zk.OpCreate2:              {about: creating(zk.OpCreate2, 0)},
	zk.OpCreateContainer:      {about: creating(zk.OpCreateContainer, 4)},
	zk.OpCreateTTL:            {about: creating(zk.OpCreateTTL, 5)},
	zk.OpDelete:               {about: deleting},
	zk.OpExists:               {about: reading(zk.OpExists, unwatched, watched)},
	zk.OpGetData:              {about: reading(zk.OpGetData, unwatched, watched)},
	zk.OpGetChildren:          {about: reading(zk.OpGetChildren, unwatched, watched)},
	zk.OpGetChildren2:         {about: reading(zk.OpGetChildren2, unwatched, watched)},
	zk.OpGetACL:               {about: reading(zk.OpGetACL, nil)},
	zk.OpGetAllChildrenNumber: {about: reading(zk.OpGetAllChildrenNumber, nil)},
	zk.OpGetEphemerals:        {about: reading(zk.OpGetEphemerals, nil)},
	zk.OpSync:                 {about: reading(zk.OpSync, nil)},
	zk.OpSetData:              {about: setting},
	zk.OpSetACL: {about: func(path string) []step {
		return []step{alone(pathStep(zk.OpSetACL, path, append(openACL.append(nil), u32(-1)...)))}
	}},
	zk.OpMulti: {about: func(path string) []step {
		var all []step
		for _, about := range []func(string) []step{
			creating(zk.OpCreate, 0), creating(zk.OpCreate2, 0), creating(zk.OpCreateContainer, 4), creating(zk.OpCreateTTL, 5), deleting, setting,
		} {
			all = append(all, several(zk.OpMulti, about(path)...))
		}
		// The refused operation is one of several, at any position.
		parts := append(append(setting(path), creating(zk.OpCreate2, 0)(path+"/c")...), creating(zk.OpCreate, 0)(path)...)
		for range parts {
			all = append(all, several(zk.OpMulti, parts...))
			parts = append(parts[1:], parts[0])
		}
		return append(all, several(zk.OpMulti, pathStep(zk.OpCheck, path, u32(0))))
	}},
	zk.OpMultiRead: {about: func(path string) []step {
		return []step{several(zk.OpMultiRead, pathStep(zk.OpGetData, path, []byte{0}), pathStep(zk.OpGetChildren, path, []byte{0}))}
	}},
	zk.OpAddWatch: {about: func(path string) []step {
		return []step{pathStep(zk.OpAddWatch, path, u32(0)), pathStep(zk.OpAddWatch, path, u32(1))}
	}},
	zk.OpCheckWatches:  {about: removing(zk.OpCheckWatches)},
	zk.OpRemoveWatches: {about: removing(zk.OpRemoveWatches)},
	zk.OpSetWatches:    {about: rearming(zk.OpSetWatches, 3)},
	zk.OpSetWatches2:   {about: rearming(zk.OpSetWatches2, 5)},
	zk.OpWhoAmI:        {about: func(string) []step { return []step{{op: zk.OpWhoAmI, text: "whoAmI"}} }},
	zk.OpReconfig: {about: func(string) []step {
		b := jute.AppendLong(jute.AppendString(jute.AppendInt(jute.AppendInt(nil, -1), -1), "server.1=127.0.0.1:1:2;3"), -1)
		return []step{alone(step{op: zk.OpReconfig, body: b, text: "reconfig"})}
	}},

	zk.OpGetChildrenPage: {why: "Apache has none"},

	zk.OpPing:         {why: "it touches nothing"},
	zk.OpAuth:         {why: "it is how a permission is come by"},
	zk.OpSASL:         {why: "the same"},
	zk.OpCloseSession: {why: "a session is its client's"},
}

func creating(op zk.Op, flags int32) func(string) []step {
	return func(path string) []step {
		return []step{createStep(op, fmt.Sprintf("%s/by-%s", path, op), nil, openACL, flags, 60_000)}
	}
}

func deleting(path string) []step { return []step{pathStep(zk.OpDelete, path+"/c", u32(-1))} }

func setting(path string) []step {
	return []step{pathStep(zk.OpSetData, path, append(jute.AppendBytes(nil, []byte("x")), u32(-1)...))}
}

// The byte that follows the path if a watch may be set.
var unwatched, watched = []byte{0}, []byte{1}

func reading(op zk.Op, more ...[]byte) func(string) []step {
	return func(path string) (all []step) {
		for _, b := range more {
			all = append(all, pathStep(op, path, b))
		}
		return all
	}
}

// removing removes watches before and after some were set.
func removing(op zk.Op) func(string) []step {
	return func(path string) []step {
		look := pathStep(op, path, u32(3))
		return []step{look, pathStep(zk.OpExists, path, []byte{1}), look}
	}
}

// rearming sets watches that have missed an event, and one of each kind that has not.
func rearming(op zk.Op, lists int) func(string) []step {
	return func(path string) []step {
		var all []step
		for _, back := range []int64{1000, 0} {
			b := jute.AppendLong(nil, 0)
			for range lists {
				b = jute.AppendStrings(b, []string{path})
			}
			all = append(all, step{op: op, xid: zk.XidSetWatches, body: b, text: op.String() + " " + path, seen: true, back: back, alone: true})
		}
		return all
	}
}

// several returns a transaction, or several reads.
func several(op zk.Op, subs ...step) step {
	s := step{op: op, text: op.String() + " {", alone: true}
	for _, sub := range subs {
		s.body = append(header(s.body, sub.op, false, -1), sub.body...)
		s.text += sub.text + ";"
	}
	s.body = header(s.body, -1, true, -1)
	s.text += "}"
	return s
}

// granted has a row for each ACL scheme: the ids by which a caller may or may not have a
// permission, or the reason why there are none. All callers come from 127.0.0.1, and auth
// stands for the keeper.
var granted = map[string]struct {
	ids []string
	why string
}{
	"world":  {ids: []string{"anyone"}},
	"ip":     {ids: []string{"127.0.0.1", "10.0.0.0/8"}},
	"digest": {ids: []string{bobID, aliceID}},
	"auth":   {ids: []string{""}},
	"sasl":   {ids: []string{"bob", "alice"}},
	"x509":   {ids: []string{nameOf("bob"), nameOf("alice")}},

	"ensemble": {why: "it proves nothing, and no ACL may name it"},
}

// A caller is a connection of the matrix, and its proofs.
type caller struct {
	digest      string // user:password
	sasl        string // the user; the password is saslPassword
	certificate string // name of the certificate; implies TLS
}

func (c caller) String() string {
	switch {
	case c.digest != "":
		return "digest " + c.digest
	case c.sasl != "":
		return "sasl " + c.sasl
	case c.certificate != "":
		return "x509 " + c.certificate
	}
	return "nobody"
}

// keeper creates the znodes, and changes them.
var keeper = caller{digest: "super:admin"}

// The callers: of servers without settings, and of servers that accept other proofs, by
// which a caller may also be the super user.
var (
	withPasswords = []caller{{digest: "bob:secret"}, {}, {digest: "super:admin"}}
	withProofs    = []caller{{sasl: "bob"}, {certificate: "bob"}, {sasl: "root"}, {certificate: "root"}, {}}
)

// matrix returns the script in which each caller requests everything with every permission,
// by every scheme, with watches of the caller in place and changes that would trigger them.
func matrix(callers []caller) *script {
	m := &script{}
	xids := map[int]zk.Xid{}
	add := func(conn int, s step) {
		s.conn = conn
		if s.kind == stepRequest && s.xid == 0 {
			xids[conn]++
			s.xid = xids[conn]
		}
		m.steps = append(m.steps, s)
	}
	ask := func(conn int, steps ...step) {
		for _, s := range steps {
			s.kind = stepRequest
			s.alone = true
			add(conn, s)
		}
	}
	for conn, who := range append([]caller{keeper}, callers...) {
		add(conn, step{kind: stepConnect, timeoutMs: sessionTimeoutMs, certificate: who.certificate})
		switch {
		case who.digest != "":
			b := jute.AppendBytes(jute.AppendString(jute.AppendInt(nil, 0), "digest"), []byte(who.digest))
			ask(conn, step{op: zk.OpAuth, xid: zk.XidAuth, body: b, text: "auth " + who.digest})
		case who.sasl != "":
			add(conn, step{kind: stepProve, user: who.sasl})
		}
	}
	n := 0
	for _, scheme := range slices.Sorted(maps.Keys(granted)) {
		for _, id := range granted[scheme].ids {
			for perm := int32(zk.PermRead); perm <= int32(zk.PermAdmin); perm <<= 1 {
				for op := zk.OpCloseSession; op <= zk.OpWhoAmI; op++ {
					row := matrixRows[op]
					if row.about == nil {
						continue
					}
					for i := range callers {
						n++
						path := fmt.Sprintf("/m%d", n)
						ask(0, createStep(zk.OpCreate, path, []byte("data"), aclList{entry(perm, scheme, id)}, 0, 0),
							createStep(zk.OpCreate, path+"/c", nil, openACL, 0, 0))
						ask(1+i, row.about(path)...)
						ask(0, pathStep(zk.OpSetData, path, append(jute.AppendBytes(nil, []byte("y")), u32(-1)...)),
							createStep(zk.OpCreate, path+"/d", nil, openACL, 0, 0))
						ask(1+i, pathStep(zk.OpExists, "/", []byte{0})) // events come before the answer to this
					}
				}
			}
		}
	}
	// What auth stands for, in each caller's ACL, and what the others may do then.
	for i := range callers {
		path := fmt.Sprintf("/own%d", i)
		ask(1+i, createStep(zk.OpCreate, path, []byte("data"), aclList{entry(31, "auth", "")}, 0, 0))
		for j := range callers {
			ask(1+j, pathStep(zk.OpGetACL, path, nil), pathStep(zk.OpGetData, path, unwatched))
		}
	}
	return m
}
