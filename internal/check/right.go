package check

import (
	"slices"

	"github.com/conclave-project/conclave/zk"
)

// Asker is the client in whose name a request was made.
type Asker struct {
	Session    zk.SessionID
	Identities []zk.Identity // that the connection has proved
	Floor      zk.Zxid       // the newest zxid that anybody had seen when the request was made
}

// may reports whether a list permits an operation; an empty list permits everything. The
// lists contain no networks, so identities can be compared for equality.
func (a *Asker) may(list []zk.ACL, perm zk.Perms) bool {
	if len(list) == 0 {
		return true
	}
	return slices.ContainsFunc(list, func(entry zk.ACL) bool {
		if entry.Perms&perm == 0 {
			return false
		}
		return entry.Identity == zk.Identity{Scheme: "world", ID: "anyone"} || slices.Contains(a.Identities, entry.Identity)
	})
}

// stored returns a list as it is stored: "auth" is replaced by what a credential has
// proved.
func (a *Asker) stored(list []zk.ACL) []zk.ACL {
	var all []zk.ACL
	for _, entry := range list {
		if entry.Scheme != "auth" {
			all = append(all, entry)
			continue
		}
		for _, id := range a.Identities {
			if id.Scheme == "digest" {
				all = append(all, zk.ACL{Perms: entry.Perms, Identity: id})
			}
		}
	}
	return all
}

// right returns the permission that a write needs, and the list that decides.
func (v *write) right() (perm zk.Perms, list []zk.ACL) {
	switch op := v.req.Op; {
	case op.IsCreate():
		return zk.PermCreate, v.parent.acl
	case op == zk.OpDelete:
		return zk.PermDelete, v.parent.acl
	case op == zk.OpSetData:
		return zk.PermWrite, v.old.acl
	case op == zk.OpSetACL:
		return zk.PermAdmin, v.old.acl
	}
	return zk.PermRead, v.old.acl
}

// allowed compares an answer with the permission for the request.
func (v *write) allowed() error {
	perm, list := v.right()
	may := v.who.may(list, perm)
	switch {
	case v.code == zk.ErrNoAuth && may:
		return broken(propertyWrite, "W3: %v %s at %s is refused for a right that %v has by %v", v.req.Op, v.req.Path, number(v.zxid), v.who.Identities, list)
	case v.code == zk.OK && !may:
		return broken(propertyWrite, "W5: %v %s at %s succeeds for %v, and %v does not allow it", v.req.Op, v.req.Path, number(v.zxid), v.who.Identities, list)
	}
	return nil
}

// readable compares the answer to a read with the permission for it.
func (s *state) readable(who *Asker, req *zk.Request, zxid zk.Zxid, code zk.Code) error {
	perm := zk.PermRead
	if req.Op == zk.OpGetACL {
		perm |= zk.PermAdmin
	}
	may := who.may(s.acl, perm)
	switch {
	case code == zk.ErrNoAuth && may:
		return broken(propertyRead, "%v %s at %s is refused for a right that %v has by %v", req.Op, req.Path, number(zxid), who.Identities, s.acl)
	case code == zk.OK && !may:
		return broken(propertyRead, "%v %s at %s shows %v what %v keeps from it", req.Op, req.Path, number(zxid), who.Identities, s.acl)
	}
	return nil
}

// readACL compares a list that was read. A client without the permission to change the list
// does not see the hashes in it.
func (s *state) readACL(who *Asker, req *zk.Request, zxid zk.Zxid, got []zk.ACL) error {
	want := slices.Clone(s.acl)
	for i := range want {
		if want[i].Scheme == "digest" && !who.may(s.acl, zk.PermAdmin) {
			want[i].ID = want[i].ID[:slices.Index([]byte(want[i].ID), ':')] + ":x"
		}
	}
	if !slices.Equal(got, want) {
		return broken(propertyRead, "getACL %s at %s is %v, should be %v", req.Path, number(zxid), got, want)
	}
	return nil
}
