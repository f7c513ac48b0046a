package sim

import (
	"fmt"

	"github.com/conclave-project/conclave/internal/auth"
	"github.com/conclave-project/conclave/zk"
)

// Znodes that not every client may use. On each connection, a third of the clients first
// prove that they are alice, and a third that they are bob:
//
//	/s0 ... /s2        with one of many ACLs, which change
//	/sN/a, /sN/b       below them
const secrets = 3

// names are the identities that the clients of a run prove, by their numbers; some prove
// none.
var names = []string{"", "alice", "bob"}

// credential returns what a client presents; "" for nothing.
func (c *client) credential() string {
	name := names[c.number%len(names)]
	if name == "" || c.w.plan.does()&WorkRights == 0 {
		return ""
	}
	return name + ":secret"
}

// prove sends the credential, and tells the checkers.
func (c *client) prove() {
	c.who.Identities = auth.Connected("10.0.1." + fmt.Sprint(c.place))
	credential := c.credential()
	if credential == "" {
		return
	}
	c.who.Identities = append(c.who.Identities, identity(credential))
	c.program.submit(zk.Request{Op: zk.OpAuth, Scheme: "digest", Data: []byte(credential)})
}

func identity(credential string) zk.Identity {
	return zk.Identity{Scheme: "digest", ID: auth.Digest(credential)}
}

// proved handles a connection that has presented a credential.
func (c *port) proved(r *zk.Request) zk.Code {
	var rules auth.Rules
	more, err := rules.Authenticate(r.Scheme, r.Data, c.identities[0].ID)
	if err != nil {
		return zk.ErrAuthFailed
	}
	c.identities = append(append([]zk.Identity(nil), c.identities...), more...)
	return zk.OK
}

func (p *program) rights() {
	r := p.c.random
	path := fmt.Sprintf("/s%d", r.below(secrets))
	child := path + []string{"/a", "/b"}[r.below(2)]
	switch pick := r.below(20); {
	case pick < 3:
		p.submit(zk.Request{Op: zk.OpCreate, Path: path, Data: p.data(), ACL: p.acl()})
	case pick < 6:
		p.submit(zk.Request{Op: zk.OpSetACL, Path: path, ACL: p.acl(), Version: int32(r.below(4)) - 1})
	case pick < 8:
		p.submit(zk.Request{Op: zk.OpSetData, Path: path, Data: p.data(), Version: -1})
	case pick < 10:
		p.submit(zk.Request{Op: zk.OpGetData, Path: path, Watch: r.oneIn(2)})
	case pick < 11:
		p.submit(zk.Request{Op: zk.OpExists, Path: child, Watch: r.oneIn(2)})
	case pick < 13:
		p.submit(zk.Request{Op: zk.OpGetACL, Path: path})
	case pick < 16:
		p.submit(zk.Request{Op: zk.OpCreate2, Path: child, Data: p.data(), ACL: p.acl()})
	case pick < 17:
		p.submit(zk.Request{Op: zk.OpDelete, Path: child, Version: -1})
	case pick < 18:
		p.submit(zk.Request{Op: zk.OpDelete, Path: path, Version: -1})
	case pick < 19:
		p.submit(zk.Request{Op: zk.OpGetChildren2, Path: path, Watch: r.oneIn(2)})
	default:
		p.submit(zk.Request{Op: zk.OpMulti, Ops: []zk.Request{
			{Op: zk.OpCheck, Path: path, Version: -1}, {Op: zk.OpCreate, Path: child, Data: p.data(), ACL: p.acl()},
		}})
	}
}

// acl returns one of the lists that clients set.
func (p *program) acl() []zk.ACL {
	alice, bob := identity("alice:secret"), identity("bob:secret")
	switch p.c.random.below(6) {
	case 0:
		if p.c.credential() != "" {
			return zk.CreatorACL()
		}
	case 1:
		return append(zk.ReadACL(), zk.ACL{Perms: zk.PermAll, Identity: alice}, zk.ACL{Perms: zk.PermWrite | zk.PermCreate, Identity: bob})
	case 2:
		return []zk.ACL{{Perms: zk.PermAll &^ zk.PermDelete, Identity: alice}, {Perms: zk.PermAll, Identity: bob}}
	case 3:
		return []zk.ACL{{Perms: zk.PermAdmin | zk.PermWrite, Identity: zk.OpenACL()[0].Identity}, {Perms: zk.PermRead, Identity: bob}}
	}
	return zk.OpenACL()
}
