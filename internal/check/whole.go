package check

import (
	"iter"

	"github.com/conclave-project/conclave/zk"
)

// Znode is a znode as a server stores it.
type Znode struct {
	Path string
	Data []byte
	ACL  []zk.ACL
	Stat zk.StatPersisted
}

// Whole compares the whole tree of a server, after the last known transaction, with the
// model: each znode, its data, its numbers, its owner, and what a digest does not cover,
// the ACLs. Below /zookeeper servers differ.
func (m *Model) Whole(znodes iter.Seq[Znode]) error {
	found := 0
	for z := range znodes {
		if isSystem(z.Path) {
			continue
		}
		found++
		if err := m.same(&z); err != nil {
			return err
		}
	}
	want := 0
	for path, t := range m.nodes {
		if t.now().exists && !isSystem(path) {
			want++
		}
	}
	if found != want {
		return broken(propertyModel, "a server's tree has %d znodes at %s, and should have %d", found, number(m.last), want)
	}
	return nil
}

// isSystem reports whether a path is /zookeeper or below it.
func isSystem(path string) bool {
	return path == zk.SystemPath || len(path) > len(zk.SystemPath) && path[:len(zk.SystemPath)+1] == zk.SystemPath+"/"
}

// same compares one znode.
func (m *Model) same(z *Znode) error {
	t := m.nodes[z.Path]
	s := t.now()
	switch {
	case !s.exists:
		return broken(propertyModel, "a server has %s, which is not there since %s", z.Path, number(s.zxid))
	case z.Stat.Czxid != s.czxid || z.Stat.Mzxid != s.mzxid || z.Stat.Version != s.version || z.Stat.Aversion != s.aversion:
		return broken(propertyModel, "a server has %s made at %s, set at %s, version %d, ACL version %d; should be %s, %s, %d, %d",
			z.Path, number(z.Stat.Czxid), number(z.Stat.Mzxid), z.Stat.Version, z.Stat.Aversion,
			number(s.czxid), number(s.mzxid), s.version, s.aversion)
	case hashOf(z.Data) != s.data && s.zxid != 0:
		return broken(propertyModel, "a server has other data in %s than %s has set", z.Path, number(s.mzxid))
	case z.Stat.EphemeralOwner != s.storedOwner():
		return broken(propertyModel, "a server has %s with the owner %x, should be %x", z.Path, z.Stat.EphemeralOwner, s.storedOwner())
	case s.zxid != 0 && !sameACL(z.ACL, s.acl):
		return broken(propertyModel, "a server has %s with the ACL %v, should be %v", z.Path, z.ACL, s.acl)
	}
	if n, known := t.numbersWhen(s, m.last); known {
		return n.inTree(z.Path, &z.Stat)
	}
	return nil
}

// storedOwner returns what is stored as a znode's owner.
func (s *state) storedOwner() int64 {
	switch s.kind {
	case zk.OwnerContainer:
		return zk.ContainerOwner
	case zk.OwnerTTL:
		return zk.TTLOwner(s.ttlMs)
	}
	return int64(s.owner)
}

func sameACL(a, b []zk.ACL) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
