package tree

import (
	"unsafe"

	"github.com/conclave-project/conclave/zk"
)

// znode is one record of the slab: fixed size, no pointers. Its name and data
// lie one behind the other in one block of the arena.
type znode struct {
	czxid, mzxid, pzxid zk.Zxid
	ctime, mtime        int64
	owner               int64 // stored ephemeralOwner word

	version, cversion, aversion int32
	children                    int32

	parent     uint32 // noNode for the root
	first      uint32 // head of the children's list
	next, prev uint32 // in the parent's list; next also links free records
	place      uint32 // in the list of its owner, see owned.go
	acl        uint32 // in the ACL table
	block      uint32 // in the arena
	bodySum    uint32 // CRC-32 of path and data, see digest.go
	nameLength uint32
	dataLength int32 // -1 for null
}

const (
	noNode   uint32 = 0 // the record that is never used
	rootNode uint32 = 1
)

func (n *znode) setStat(s *zk.StatPersisted) {
	n.czxid, n.mzxid, n.pzxid = s.Czxid, s.Mzxid, s.Pzxid
	n.ctime, n.mtime, n.owner = s.Ctime, s.Mtime, s.EphemeralOwner
	n.version, n.cversion, n.aversion = s.Version, s.Cversion, s.Aversion
}

func (n *znode) stat() zk.StatPersisted {
	return zk.StatPersisted{
		Czxid: n.czxid, Mzxid: n.mzxid, Ctime: n.ctime, Mtime: n.mtime, Version: n.version,
		Cversion: n.cversion, Aversion: n.aversion, EphemeralOwner: n.owner, Pzxid: n.pzxid,
	}
}

func (n *znode) blockBytes() int { return int(n.nameLength) + int(max(n.dataLength, 0)) }

// store puts name and data into a block, in place when the old one fits.
func (t *Tree) store(n *znode, name string, data []byte) {
	n.block = t.blocks.alloc(len(name) + len(data))
	n.nameLength, n.dataLength = uint32(len(name)), dataLength(data)
	b := t.blocks.bytes(n.block, n.blockBytes())
	copy(b, name)
	copy(b[len(name):], data)
}

// setData replaces the data of a znode and keeps its name.
func (t *Tree) setData(n *znode, data []byte) {
	size := int(n.nameLength) + len(data)
	if t.blocks.sameClass(n.blockBytes(), size) {
		n.dataLength = dataLength(data)
		copy(t.blocks.bytes(n.block, size)[n.nameLength:], data)
		return
	}
	block, bytes := n.block, n.blockBytes()
	t.store(n, t.name(n), data) // copies the name before the old block is free
	t.blocks.free(block, bytes)
}

func dataLength(data []byte) int32 {
	if data == nil {
		return -1
	}
	return int32(len(data))
}

// name returns a znode's last path component; it aliases the arena.
func (t *Tree) name(n *znode) string {
	if n.nameLength == 0 {
		return ""
	}
	b := t.blocks.bytes(n.block, int(n.nameLength))
	return unsafe.String(&b[0], len(b))
}

func (t *Tree) data(n *znode) []byte {
	if n.dataLength < 0 {
		return nil
	}
	return t.blocks.bytes(n.block, n.blockBytes())[n.nameLength:]
}

// link puts child at the head of parent's list.
func (t *Tree) link(parent, child uint32) {
	p, c := t.nodes.at(parent), t.nodes.at(child)
	c.next, c.prev = p.first, noNode
	if p.first != noNode {
		t.nodes.at(p.first).prev = child
	}
	p.first = child
	p.children++
}

func (t *Tree) unlink(parent, child uint32) {
	p, c := t.nodes.at(parent), t.nodes.at(child)
	if c.prev == noNode {
		p.first = c.next
	} else {
		t.nodes.at(c.prev).next = c.next
	}
	if c.next != noNode {
		t.nodes.at(c.next).prev = c.prev
	}
	p.children--
}

// path builds the full path of a znode.
func (t *Tree) path(id uint32) string {
	if id == rootNode {
		return "/"
	}
	size := 0
	for at := id; at != rootNode; at = t.nodes.at(at).parent {
		size += 1 + int(t.nodes.at(at).nameLength)
	}
	b := make([]byte, size)
	for at := id; at != rootNode; at = t.nodes.at(at).parent {
		name := t.name(t.nodes.at(at))
		size -= len(name)
		copy(b[size:], name)
		size--
		b[size] = '/'
	}
	return unsafe.String(&b[0], len(b))
}

// Node is a look at one znode. It is valid only while the tree is locked for
// reading; what it returns as slices and names aliases the tree, too.
type Node struct {
	t  *Tree
	id uint32
}

// Data returns the znode's data, nil for null.
func (n Node) Data() []byte { return n.t.data(n.t.nodes.at(n.id)) }

// Persisted returns the stored part of the stat.
func (n Node) Persisted() zk.StatPersisted { return n.t.nodes.at(n.id).stat() }

// Stat returns the stat a client sees.
func (n Node) Stat() zk.Stat {
	z := n.t.nodes.at(n.id)
	s := z.stat()
	return s.Client(max(z.dataLength, 0), z.children, n.t.opts.ExtendedTypes)
}

// ACL returns the znode's access control list. The list is never changed.
func (n Node) ACL() []zk.ACL { return n.t.acls.list(n.t.nodes.at(n.id).acl) }

// NumChildren returns the number of direct children.
func (n Node) NumChildren() int { return int(n.t.nodes.at(n.id).children) }

// BodySum returns the checksum of path and data that the digest rests on.
func (n Node) BodySum() uint32 { return n.t.nodes.at(n.id).bodySum }

// Children appends the names of the direct children, in no particular order.
func (n Node) Children(names []string) []string {
	for id := n.t.nodes.at(n.id).first; id != noNode; {
		c := n.t.nodes.at(id)
		names = append(names, n.t.name(c))
		id = c.next
	}
	return names
}

// Descendants counts the znodes below this one.
func (n Node) Descendants() int {
	if n.id == rootNode {
		return n.t.nodes.used - 1
	}
	count := 0
	t := n.t
	for id := t.nodes.at(n.id).first; id != noNode; {
		count++
		id = t.following(id, n.id)
	}
	return count
}

// following returns the znode after id in a walk, parents first, of what is
// below top, or noNode at its end.
func (t *Tree) following(id, top uint32) uint32 {
	if first := t.nodes.at(id).first; first != noNode {
		return first
	}
	for id != top {
		if next := t.nodes.at(id).next; next != noNode {
			return next
		}
		id = t.nodes.at(id).parent
	}
	return noNode
}
