package tree

import (
	"slices"
	"unsafe"

	"github.com/conclave-project/conclave/internal/acl"
	"github.com/conclave-project/conclave/zk"
)

// znode is one record of the slab: 64 bytes, no pointers. Its name and data lie
// one after the other in one block of the arena:
//
//	1 byte   length of the name, longName if that does not fit
//	n bytes  name
//	m bytes  data
//
// What most znodes do not have is in another record, the rest.
type znode struct {
	czxid, mzxid zk.Zxid
	ctime, mtime int64

	version    int32
	dataLength int32  // -1 for null
	parent     uint32 // noNode for the root
	next, prev uint32 // in the list of the parent's children
	rest       uint32 // 0 for none
	block      uint32 // in the arena
	bodySum    uint32 // CRC-32 of path and data, see digest.go
}

// rest is what a znode has beyond a leaf that was created and written: children
// now or once, an owner, an ACL of its own, a name of more than 254 bytes.
type rest struct {
	owner      int64   // ephemeralOwner as stored
	pzxid      zk.Zxid // that of a znode without a rest is its czxid
	aversion   int32
	cversion   int32
	children   int32
	below      int32  // znodes, at any depth
	names      int64  // bytes of the children's names
	first      uint32 // head of the children's list
	counted    int32  // of below, those that a quota of this znode counts, see quota.go
	bytes      int64  // of data, in what is counted
	place      uint32 // in the list of its owner, see owned.go
	acl        uint32 // in the ACL table
	nameLength uint32 // if it is a longName
	limited    bool   // this znode has a quota
}

const (
	noNode   uint32 = 0 // the record that is never used
	rootNode uint32 = 1
	longName        = 255
)

// plain is the rest of a znode that has none. It is only read.
var plain rest

// restOf returns a znode's rest to be read.
func (t *Tree) restOf(n *znode) *rest {
	if n.rest == 0 {
		return &plain
	}
	return t.rests.At(n.rest)
}

// needRest returns a znode's rest to be changed.
func (t *Tree) needRest(n *znode) *rest {
	if n.rest == 0 {
		n.rest = t.rests.Take()
		t.rests.At(n.rest).pzxid = n.czxid
	}
	return t.rests.At(n.rest)
}

func (t *Tree) pzxid(n *znode) zk.Zxid {
	if n.rest == 0 {
		return n.czxid
	}
	return t.rests.At(n.rest).pzxid
}

func (t *Tree) setStat(n *znode, s *zk.StatPersisted) {
	n.czxid, n.mzxid, n.ctime, n.mtime, n.version = s.Czxid, s.Mzxid, s.Ctime, s.Mtime, s.Version
	if n.rest == 0 && s.EphemeralOwner == 0 && s.Pzxid == s.Czxid && s.Cversion == 0 && s.Aversion == 0 {
		return
	}
	r := t.needRest(n)
	r.owner, r.pzxid, r.cversion, r.aversion = s.EphemeralOwner, s.Pzxid, s.Cversion, s.Aversion
}

func (t *Tree) stat(n *znode) zk.StatPersisted {
	r := t.restOf(n)
	return zk.StatPersisted{
		Czxid: n.czxid, Mzxid: n.mzxid, Ctime: n.ctime, Mtime: n.mtime, Version: n.version,
		Cversion: r.cversion, Aversion: r.aversion, EphemeralOwner: r.owner, Pzxid: t.pzxid(n),
	}
}

// useACL makes a znode refer to a list of the table.
func (t *Tree) useACL(n *znode, list uint32) {
	if n.rest != 0 || list != openACL {
		t.needRest(n).acl = list
	}
}

// dataBytes is the length of a znode's data.
func (n *znode) dataBytes() int { return int(max(n.dataLength, 0)) }

// nameBytes is the length of a znode's name.
func (t *Tree) nameBytes(n *znode) int {
	if b := t.blocks.Bytes(n.block, 1)[0]; b != longName {
		return int(b)
	}
	return int(t.rests.At(n.rest).nameLength)
}

func (t *Tree) blockBytes(n *znode) int { return 1 + t.nameBytes(n) + n.dataBytes() }

// store puts name and data into a new block.
func (t *Tree) store(n *znode, name string, data []byte) {
	size := 1 + len(name) + len(data)
	n.block = t.blocks.Alloc(size)
	t.noteLength(len(data))
	n.dataLength = dataLength(data)
	b := t.blocks.Bytes(n.block, size)
	b[0] = byte(min(len(name), longName))
	if len(name) >= longName {
		t.needRest(n).nameLength = uint32(len(name))
	}
	copy(b[1:], name)
	copy(b[1+len(name):], data)
}

// setData replaces the data of a znode and counts how they have grown.
func (t *Tree) setData(n *znode, data []byte) {
	grown := int64(len(data)) - int64(n.dataBytes())
	t.textSize += grown
	if grown != 0 && !t.restOf(n).limited {
		t.count(n.parent, 0, grown)
	}
	t.replace(n, data)
}

// replace puts other data after the name of a znode: in place, if the block has the space.
func (t *Tree) replace(n *znode, data []byte) {
	head := 1 + t.nameBytes(n)
	block, bytes := n.block, t.blockBytes(n)
	if t.blocks.SameClass(bytes, head+len(data)) {
		t.noteLength(len(data))
		n.dataLength = dataLength(data)
		copy(t.blocks.Bytes(block, head+len(data))[head:], data)
		return
	}
	t.store(n, t.name(n), data) // copies the name before the old block is free
	t.blocks.Free(block, bytes)
}

func dataLength(data []byte) int32 {
	if data == nil {
		return -1
	}
	return int32(len(data))
}

// name returns a znode's last path component; it aliases the arena.
func (t *Tree) name(n *znode) string {
	size := t.nameBytes(n)
	if size == 0 {
		return ""
	}
	b := t.blocks.Bytes(n.block, 1+size)[1:]
	return unsafe.String(&b[0], size)
}

func (t *Tree) data(n *znode) []byte {
	if n.dataLength < 0 {
		return nil
	}
	head := 1 + t.nameBytes(n)
	return t.blocks.Bytes(n.block, head+n.dataBytes())[head:]
}

// link puts child at the head of parent's list.
func (t *Tree) link(parent, child uint32) {
	p, c := t.needRest(t.nodes.At(parent)), t.nodes.At(child)
	c.next, c.prev = p.first, noNode
	if p.first != noNode {
		t.nodes.At(p.first).prev = child
	}
	p.first = child
	p.children++
	p.names += int64(t.nameBytes(c))
	t.countBelow(c, 1)
}

// countBelow adds a leaf to the counts of all above it, or takes it out.
func (t *Tree) countBelow(n *znode, sign int32) {
	for id := n.parent; id != noNode; id = t.nodes.At(id).parent {
		t.rests.At(t.nodes.At(id).rest).below += sign
	}
	if !t.restOf(n).limited {
		t.count(n.parent, sign, int64(sign)*int64(n.dataBytes()))
	}
}

func (t *Tree) unlink(parent, child uint32) {
	p, c := t.needRest(t.nodes.At(parent)), t.nodes.At(child)
	if c.prev == noNode {
		p.first = c.next
	} else {
		t.nodes.At(c.prev).next = c.next
	}
	if c.next != noNode {
		t.nodes.At(c.next).prev = c.prev
	}
	p.children--
	p.names -= int64(t.nameBytes(c))
	t.countBelow(c, -1)
}

// pathBytes returns the length of the full path of a znode other than the root.
func (t *Tree) pathBytes(id uint32) (bytes int64) {
	for at := id; at != rootNode; at = t.nodes.At(at).parent {
		bytes += 1 + int64(t.nameBytes(t.nodes.At(at)))
	}
	return bytes
}

// path builds the full path of a znode.
func (t *Tree) path(id uint32) string {
	if id == rootNode {
		return "/"
	}
	size := t.pathBytes(id)
	b := make([]byte, size)
	for at := id; at != rootNode; at = t.nodes.At(at).parent {
		name := t.name(t.nodes.At(at))
		size -= int64(len(name))
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
func (n Node) Data() []byte { return n.t.data(n.t.nodes.At(n.id)) }

// Persisted returns the stored part of the stat.
func (n Node) Persisted() zk.StatPersisted { return n.t.stat(n.t.nodes.At(n.id)) }

// Stat returns the stat a client sees.
func (n Node) Stat() zk.Stat {
	z := n.t.nodes.At(n.id)
	s := n.t.stat(z)
	return s.Client(int32(z.dataBytes()), n.t.restOf(z).children, n.t.opts.ExtendedTypes)
}

// ACL returns the znode's access control list. The list is never changed.
func (n Node) ACL() acl.List { return n.t.acls.list(n.t.restOf(n.t.nodes.At(n.id)).acl) }

// DataBytes returns the length of the data.
func (n Node) DataBytes() int { return n.t.nodes.At(n.id).dataBytes() }

// Place returns where the znode is. Those that every tree has from the beginning are nowhere.
func (n Node) Place() Place {
	if z := n.t.nodes.At(n.id); z.czxid > 0 {
		return Place{n.id, uint32(n.t.replaced), z.czxid}
	}
	return Place{}
}

// NumChildren returns the number of direct children.
func (n Node) NumChildren() int { return int(n.t.restOf(n.t.nodes.At(n.id)).children) }

// NamesBytes returns the length of the names of all children.
func (n Node) NamesBytes() int64 { return n.t.restOf(n.t.nodes.At(n.id)).names }

// BodySum returns the checksum of path and data that the digest rests on.
func (n Node) BodySum() uint32 { return n.t.nodes.At(n.id).bodySum }

// HasChild reports whether there is a direct child of that name.
func (n Node) HasChild(name string) bool {
	_, ok := n.t.child(n.id, name)
	return ok
}

// Children appends the names of the direct children, in no particular order.
func (n Node) Children(names []string) []string {
	names = slices.Grow(names, n.NumChildren())
	for id := n.t.first(n.id); id != noNode; {
		c := n.t.nodes.At(id)
		names = append(names, n.t.name(c))
		id = c.next
	}
	return names
}

// ChildrenAfter appends names of direct children, in the order in which Children has them:
// those after the child of that name, or from the first on for "". It appends at most so many,
// and ends with the one whose bytes reach bytesMax. more says that others come after them; ok is false if there is
// no such child. A child keeps its place among the others as long as it and this tree live
// (see Tree.Replaced); a new one comes before all others.
func (n Node) ChildrenAfter(after string, names []string, limit, bytesMax int) (all []string, more, ok bool) {
	id := n.t.first(n.id)
	if after != "" {
		if id, ok = n.t.child(n.id, after); !ok {
			return names, false, false
		}
		id = n.t.nodes.At(id).next
	}
	for ; id != noNode && limit > 0 && bytesMax > 0; limit-- {
		c := n.t.nodes.At(id)
		name := n.t.name(c)
		names = append(names, name)
		bytesMax -= len(name)
		id = c.next
	}
	return names, id != noNode, true
}

// Descendants is the number of znodes below this one, at any depth.
func (n Node) Descendants() int { return int(n.t.restOf(n.t.nodes.At(n.id)).below) }

// first returns the head of a znode's list of children.
func (t *Tree) first(id uint32) uint32 { return t.restOf(t.nodes.At(id)).first }

// following returns the znode after id in a walk, parents first, of what is
// below top, or noNode at its end.
func (t *Tree) following(id, top uint32) uint32 {
	if first := t.first(id); first != noNode {
		return first
	}
	return t.behind(id, top)
}

// behind is following without what is below id.
func (t *Tree) behind(id, top uint32) uint32 {
	for id != top {
		if next := t.nodes.At(id).next; next != noNode {
			return next
		}
		id = t.nodes.At(id).parent
	}
	return noNode
}
