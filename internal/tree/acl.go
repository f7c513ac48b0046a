package tree

import (
	"slices"
	"strings"

	"github.com/conclave-project/conclave/internal/acl"
	"github.com/conclave-project/conclave/internal/jute"
	"github.com/conclave-project/conclave/zk"
)

// openACL is the number of the ACL that lets everybody do everything. It is never stored:
// snapshots write it as -1.
const openACL uint32 = 0

// aclTable stores each distinct ACL once. ACLs are never changed. An ACL that no znode refers
// to any more is dropped and its number is used again, but not while a scan is under way. The
// reader of a scan has the ACLs of its beginning, and would use the ACL that had the number
// then. (ZooKeeper's servers do not correct it when they replay a create.)
type aclTable struct {
	lists  []aclList
	byKey  map[string]uint32
	unused []uint32
	held   []uint32 // numbers dropped during a scan
}

type aclList struct {
	list  acl.List
	key   string
	users int
}

func (a *aclTable) init() {
	a.byKey = map[string]uint32{}
	a.lists = []aclList{{list: acl.New(zk.OpenACL())}}
}

// add returns the number of the ACL with these entries, for one more user.
func (a *aclTable) add(entries []zk.ACL) uint32 {
	if isOpen(entries) {
		return openACL // never dropped, so its users need no count
	}
	key := aclKey(entries)
	if id, ok := a.byKey[string(key)]; ok {
		a.lists[id].users++
		return id
	}
	list := aclList{list: acl.New(cloneACL(entries)), key: string(key), users: 1}
	var id uint32
	if n := len(a.unused); n > 0 {
		id, a.unused = a.unused[n-1], a.unused[:n-1]
		a.lists[id] = list
	} else {
		id = uint32(len(a.lists))
		a.lists = append(a.lists, list)
	}
	a.byKey[list.key] = id
	return id
}

// release removes one user, possibly during a scan.
func (a *aclTable) release(id uint32, scanned bool) {
	if id == openACL {
		return
	}
	l := &a.lists[id]
	if l.users--; l.users > 0 {
		return
	}
	delete(a.byKey, l.key)
	*l = aclList{}
	if scanned {
		a.held = append(a.held, id)
		return
	}
	a.unused = append(a.unused, id)
}

// unhold frees the numbers that were dropped during scans, when all scans have ended.
func (a *aclTable) unhold() {
	a.unused = append(a.unused, a.held...)
	a.held = nil
}

func (a *aclTable) list(id uint32) acl.List { return a.lists[id].list }

func isOpen(entries []zk.ACL) bool {
	return len(entries) == 1 && entries[0].Perms == zk.PermAll &&
		entries[0].Scheme == "world" && entries[0].ID == "anyone"
}

// aclKey returns the bytes of an ACL; equal ACLs have equal keys.
func aclKey(entries []zk.ACL) []byte {
	var b []byte
	for i := range entries {
		b = jute.AppendInt(b, int32(entries[i].Perms))
		b = jute.AppendString(jute.AppendString(b, entries[i].Scheme), entries[i].ID)
	}
	return b
}

func cloneACL(entries []zk.ACL) []zk.ACL {
	out := slices.Clone(entries)
	for i := range out {
		out[i].Scheme, out[i].ID = strings.Clone(out[i].Scheme), strings.Clone(out[i].ID)
	}
	return out
}
