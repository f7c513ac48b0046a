package tree

import (
	"encoding/binary"
	"slices"
	"unsafe"

	"github.com/conclave-project/conclave/internal/acl"
	"github.com/conclave-project/conclave/zk"
)

// znode is one record of the slab: 32 bytes, half a line of the processor's cache, without
// pointers. Its block in the arena has what varies in length, and what most znodes do not have:
//
//	4 bytes   where the rest is, if the znode has one
//	16 bytes  size and ctime, if they are wide, and BodySum
//	24 bytes  mzxid, mtime and version, if they are not those of its creation, and BodySum
//	1 byte    length of the name, longName if that does not fit
//	n bytes   name
//	m bytes   data
type znode struct {
	czxid      zk.Zxid
	head       head
	parent     uint32 // noNode for the root
	next, prev uint32 // in the list of the parent's children
	block      uint32 // in the arena
}

// head has the flags of a znode, and its size and ctime if they are not wide. From the top:
//
//	12 bits  size of the data plus 1, 0 for null
//	4 bits   flags
//	48 bits  ctime, signed
type head uint64

// Flags: which parts come first in the block, and whether BodySum is kept, see sumOf.
const (
	withRest head = 1 << (timeBits + iota)
	withWide
	withWrite
	summed

	flags = withRest | withWide | withWrite | summed
)

const (
	restBytes  = 4
	wideBytes  = 16
	writeBytes = 24

	timeBits  = 48
	sizeShift = timeBits + 4
	narrowMax = 1<<(64-sizeShift) - 2 // bytes of data
)

// DataMax is how many bytes of data a znode may have. Code that reads records uses it as their
// limit.
const DataMax = 1<<30 - 2

// fits reports whether a size, -1 for null, and a ctime fit into a head, so that they are not
// wide.
func fits(size int, ctime int64) bool {
	return size <= narrowMax && ctime>>(timeBits-1) == ctime>>63
}

// narrow returns a head with a size and a ctime, without flags.
func narrow(size int, ctime int64) head {
	return head(uint64(size+1)<<sizeShift | uint64(ctime)&(1<<timeBits-1))
}

// size and ctime return the values of a head that is not wide.
func (h head) size() int    { return int(h>>sizeShift) - 1 }
func (h head) ctime() int64 { return int64(h<<(64-timeBits)) >> (64 - timeBits) }

// bytes returns the length of the part before the name.
func (h head) bytes() int { return h.writeAt() + int(h/withWrite&1)*writeBytes }

// wideAt and writeAt return where those parts begin.
func (h head) wideAt() int  { return int(h/withRest&1) * restBytes }
func (h head) writeAt() int { return h.wideAt() + int(h/withWide&1)*wideBytes }

// rest is what a znode may have in addition to what a leaf has: children now or in the past, an
// owner, an ACL of its own, a name of more than 254 bytes.
type rest struct {
	owner      int64   // ephemeralOwner as stored
	pzxid      zk.Zxid // for a znode without a rest it is its czxid
	aversion   int32
	cversion   int32
	children   int32
	below      int32  // number of znodes below it, at any depth
	names      int64  // total bytes of the children's names
	first      uint32 // head of the children's list
	counted    int32  // those of below that a quota of this znode counts, see quota.go
	bytes      int64  // bytes of data in what is counted
	place      uint32 // in the list of its owner, see owned.go
	acl        uint32 // in the ACL table
	nameLength uint32 // length of the name, if that is longName in the block
	bodySum    uint32 // of path and data, if it is not kept in the block: see sumOf
	limited    bool   // this znode has a quota
}

const (
	noNode   uint32 = 0 // the record that is never used
	rootNode uint32 = 1
	longName        = 255
)

// plain is the rest of every znode that has none. It is only read.
var plain rest

// restOf returns a znode's rest for reading.
func (t *Tree) restOf(n *znode) *rest {
	if n.head&withRest == 0 {
		return &plain
	}
	return t.rests.At(t.restPlace(n))
}

// restPlace returns where the rest is of a znode that has one.
func (t *Tree) restPlace(n *znode) uint32 {
	return binary.LittleEndian.Uint32(t.blocks.Bytes(n.block, restBytes))
}

// needRest returns a znode's rest for writing, and creates it if there is none.
func (t *Tree) needRest(n *znode) *rest {
	if n.head&withRest == 0 {
		t.prepend(n, withRest)
		t.takeRest(n)
	}
	return t.rests.At(t.restPlace(n))
}

// takeRest creates a rest for a znode whose block already has space for its place.
func (t *Tree) takeRest(n *znode) {
	place := t.rests.Take()
	binary.LittleEndian.PutUint32(t.blocks.Bytes(n.block, restBytes), place)
	t.rests.At(place).pzxid = n.czxid
}

func (t *Tree) pzxid(n *znode) zk.Zxid {
	if n.head&withRest == 0 {
		return n.czxid
	}
	return t.restOf(n).pzxid
}

// written returns what the last write to a znode has left in its stat.
func (t *Tree) written(n *znode) (mzxid zk.Zxid, mtime int64, version int32) {
	if n.head&withWrite == 0 {
		return n.czxid, t.ctime(n), 0
	}
	b := t.blocks.Bytes(n.block, n.head.bytes())[n.head.writeAt():]
	mzxid = zk.Zxid(binary.LittleEndian.Uint64(b))
	mtime = int64(binary.LittleEndian.Uint64(b[8:]))
	return mzxid, mtime, int32(binary.LittleEndian.Uint32(b[16:]))
}

// setWritten is the reverse of written.
func (t *Tree) setWritten(n *znode, mzxid zk.Zxid, mtime int64, version int32) {
	if n.head&withWrite == 0 {
		if mzxid == n.czxid && mtime == t.ctime(n) && version == 0 {
			return
		}
		t.prepend(n, withWrite)
	}
	b := t.blocks.Bytes(n.block, n.head.bytes())[n.head.writeAt():]
	binary.LittleEndian.PutUint64(b, uint64(mzxid))
	binary.LittleEndian.PutUint64(b[8:], uint64(mtime))
	binary.LittleEndian.PutUint32(b[16:], uint32(version))
}

// setStat sets the stat of a znode that already has its block.
func (t *Tree) setStat(n *znode, s *zk.StatPersisted) {
	n.czxid = s.Czxid
	t.setSizeAndTime(n, t.size(n), s.Ctime)
	t.setWritten(n, s.Mzxid, s.Mtime, s.Version)
	if n.head&withRest == 0 && plainStat(s) {
		return
	}
	r := t.needRest(n)
	r.owner, r.pzxid, r.cversion, r.aversion = s.EphemeralOwner, s.Pzxid, s.Cversion, s.Aversion
}

// plainStat reports whether a znode with this stat needs no rest for it.
func plainStat(s *zk.StatPersisted) bool {
	return s.EphemeralOwner == 0 && s.Pzxid == s.Czxid && s.Cversion == 0 && s.Aversion == 0
}

func (t *Tree) stat(n *znode) zk.StatPersisted {
	r := t.restOf(n)
	s := zk.StatPersisted{
		Czxid: n.czxid, Ctime: t.ctime(n),
		Cversion: r.cversion, Aversion: r.aversion, EphemeralOwner: r.owner, Pzxid: r.pzxid,
	}
	if r == &plain {
		s.Pzxid = n.czxid
	}
	s.Mzxid, s.Mtime, s.Version = t.written(n)
	return s
}

// useACL makes a znode refer to an ACL of the table.
func (t *Tree) useACL(n *znode, list uint32) {
	if n.head&withRest != 0 || list != openACL {
		t.needRest(n).acl = list
	}
}

// size returns the length of a znode's data, -1 for null.
func (t *Tree) size(n *znode) int {
	if n.head&withWide == 0 {
		return n.head.size()
	}
	return t.wideSize(n)
}

func (t *Tree) ctime(n *znode) int64 {
	if n.head&withWide == 0 {
		return n.head.ctime()
	}
	return t.wideCtime(n)
}

// wideSize and wideCtime return the values of a znode that has both in its block.
func (t *Tree) wideSize(n *znode) int {
	return int(binary.LittleEndian.Uint32(t.blocks.Bytes(n.block, n.head.bytes())[n.head.wideAt():])) - 1
}

func (t *Tree) wideCtime(n *znode) int64 {
	return int64(binary.LittleEndian.Uint64(t.blocks.Bytes(n.block, n.head.bytes())[n.head.wideAt()+4:]))
}

// dataBytes returns the length of a znode's data.
func (t *Tree) dataBytes(n *znode) int { return max(0, t.size(n)) }

// setSizeAndTime sets size and ctime. A znode that was wide remains wide.
func (t *Tree) setSizeAndTime(n *znode, size int, ctime int64) {
	if n.head&withWide == 0 {
		if fits(size, ctime) {
			n.head = n.head&flags | narrow(size, ctime)
			return
		}
		t.prepend(n, withWide)
	}
	t.putWide(n, size, ctime)
}

// putWide is setSizeAndTime for a znode that is wide.
func (t *Tree) putWide(n *znode, size int, ctime int64) {
	if size > DataMax {
		panic("tree: a znode with a GiB of data")
	}
	b := t.blocks.Bytes(n.block, n.head.bytes())[n.head.wideAt():]
	binary.LittleEndian.PutUint32(b, uint32(size+1))
	binary.LittleEndian.PutUint64(b[4:], uint64(ctime))
}

// sizeOf returns the length of data, -1 for null.
func sizeOf(data []byte) int {
	if data == nil {
		return -1
	}
	return len(data)
}

// nameBytes returns the length of a znode's name.
func (t *Tree) nameBytes(n *znode) int {
	start := n.head.bytes()
	if b := t.blocks.Bytes(n.block, start+1)[start]; b != longName {
		return int(b)
	}
	return int(t.restOf(n).nameLength)
}

// nameEnd returns the length of the part before the data.
func (t *Tree) nameEnd(n *znode) int { return n.head.bytes() + 1 + t.nameBytes(n) }

func (t *Tree) blockBytes(n *znode) int { return t.nameEnd(n) + t.dataBytes(n) }

// store puts name and data into a new block of a znode, after the parts that its flags require.
// It creates the rest and sets size and ctime, but does not fill in the part for writes.
func (t *Tree) store(n *znode, name string, data []byte, ctime int64) {
	size := sizeOf(data)
	if len(name) >= longName {
		n.head |= withRest
	}
	if fits(size, ctime) {
		n.head |= narrow(size, ctime)
	} else {
		n.head |= withWide
	}
	start := n.head.bytes()
	bytes := start + 1 + len(name) + len(data)
	n.block = t.blocks.Alloc(bytes)
	if n.head&withWide != 0 {
		t.putWide(n, size, ctime)
	}
	t.noteLength(len(data))
	b := t.blocks.Bytes(n.block, bytes)
	b[start] = byte(min(len(name), longName))
	copy(b[start+1:], name)
	copy(b[start+1+len(name):], data)
	if n.head&withRest != 0 {
		t.takeRest(n)
	}
	if len(name) >= longName {
		t.restOf(n).nameLength = uint32(len(name))
	}
}

// prepend makes space for the part of a flag in the block of a znode that does not have it yet.
func (t *Tree) prepend(n *znode, flag head) {
	old, oldBytes := n.block, t.blockBytes(n)
	at, added := 0, restBytes
	switch flag {
	case withWide:
		at, added = n.head.wideAt(), wideBytes
	case withWrite:
		at, added = n.head.writeAt(), writeBytes
	}
	if flag != withRest { // BodySum is kept in another place now
		n.head &^= summed
	}
	n.head |= flag
	bytes := oldBytes + added
	same := t.blocks.SameClass(oldBytes, bytes)
	if !same {
		n.block = t.blocks.Alloc(bytes)
	}
	from, to := t.blocks.Bytes(old, oldBytes), t.blocks.Bytes(n.block, bytes)
	copy(to[at+added:], from[at:])
	copy(to, from[:at])
	if !same {
		t.blocks.Free(old, oldBytes)
	}
}

// setData replaces the data of a znode and counts how much they have grown.
func (t *Tree) setData(n *znode, data []byte) {
	grown := int64(len(data)) - int64(t.dataBytes(n))
	t.textSize += grown
	if grown != 0 && !t.restOf(n).limited {
		t.count(n.parent, 0, grown)
	}
	t.replace(n, data)
}

// replace puts new data after the name of a znode, in place if the block has the space.
func (t *Tree) replace(n *znode, data []byte) {
	t.noteLength(len(data))
	n.head &^= summed
	size, ctime := t.size(n), t.ctime(n)
	if n.head&withWide == 0 && !fits(sizeOf(data), ctime) {
		t.prepend(n, withWide) // setSizeAndTime fills it in
	}
	before := t.nameEnd(n)
	old, oldBytes, bytes := n.block, before+max(0, size), before+len(data)
	if !t.blocks.SameClass(oldBytes, bytes) {
		n.block = t.blocks.Alloc(bytes)
		copy(t.blocks.Bytes(n.block, before), t.blocks.Bytes(old, before))
		t.blocks.Free(old, oldBytes)
	}
	t.setSizeAndTime(n, sizeOf(data), ctime)
	copy(t.blocks.Bytes(n.block, bytes)[before:], data)
}

// name returns the last path component of a znode; it aliases the arena.
func (t *Tree) name(n *znode) string {
	size, start := t.nameBytes(n), n.head.bytes()+1
	if size == 0 {
		return ""
	}
	b := t.blocks.Bytes(n.block, start+size)[start:]
	return unsafe.String(&b[0], size)
}

// data returns a znode's data, nil for null; it aliases the arena.
func (t *Tree) data(n *znode) []byte {
	_, data := t.text(n)
	return data
}

// text returns name and data with one access to the block; both alias the arena.
func (t *Tree) text(n *znode) (name string, data []byte) {
	start, length, size := n.head.bytes()+1, t.nameBytes(n), t.size(n)
	b := t.blocks.Bytes(n.block, start+length+max(0, size))
	if size >= 0 {
		data = b[start+length:]
	}
	if length > 0 {
		name = unsafe.String(&b[start], length)
	}
	return name, data
}

// link puts child at the head of parent's list. countBelow counts it.
func (t *Tree) link(parent, child uint32) {
	p, c := t.needRest(t.nodes.At(parent)), t.nodes.At(child)
	c.next, c.prev = p.first, noNode
	if p.first != noNode {
		t.nodes.At(p.first).prev = child
	}
	p.first = child
	p.children++
	p.names += int64(t.nameBytes(c))
}

// countBelow adds a leaf to the counts of all znodes above it, or subtracts it.
func (t *Tree) countBelow(n *znode, sign int32) {
	t.addBelow(n.parent, sign)
	if !t.restOf(n).limited {
		t.count(n.parent, sign, int64(sign)*int64(t.dataBytes(n)))
	}
}

// addBelow adds more znodes to the counts of a znode that has children, and of all znodes above
// it.
func (t *Tree) addBelow(id uint32, more int32) {
	for ; id != noNode; id = t.nodes.At(id).parent {
		t.restOf(t.nodes.At(id)).below += more
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

// Node is a view of one znode. It is valid only while the tree is locked for reading; slices
// and names that it returns alias the tree too.
type Node struct {
	t  *Tree
	id uint32
}

// Data returns the znode's data, nil for null.
func (n Node) Data() []byte { return n.t.data(n.t.nodes.At(n.id)) }

// Persisted returns the stored part of the stat.
func (n Node) Persisted() zk.StatPersisted { return n.t.stat(n.t.nodes.At(n.id)) }

// Stat returns the stat that a client sees.
func (n Node) Stat() zk.Stat {
	z := n.t.nodes.At(n.id)
	s := n.t.stat(z)
	return n.t.clientStat(z, &s)
}

// clientStat returns what a client sees of a znode with the given stat.
func (t *Tree) clientStat(n *znode, s *zk.StatPersisted) zk.Stat {
	return s.Client(int32(t.dataBytes(n)), t.restOf(n).children, t.opts.ExtendedTypes)
}

// ACL returns the znode's access control list. The list is never changed.
func (n Node) ACL() acl.List { return n.t.acls.list(n.t.restOf(n.t.nodes.At(n.id)).acl) }

// DataBytes returns the length of the data.
func (n Node) DataBytes() int { return n.t.dataBytes(n.t.nodes.At(n.id)) }

// Place returns where the znode is. For znodes that every tree has from the beginning it
// returns the zero value.
func (n Node) Place() Place {
	if z := n.t.nodes.At(n.id); z.czxid > 0 {
		return Place{n.id, uint32(n.t.replaced), z.czxid}
	}
	return Place{}
}

// NumChildren returns the number of direct children.
func (n Node) NumChildren() int { return int(n.t.restOf(n.t.nodes.At(n.id)).children) }

// NamesBytes returns the total length of the names of all children.
func (n Node) NamesBytes() int64 { return n.t.restOf(n.t.nodes.At(n.id)).names }

// BodySum returns the checksum of path and data on which the digest is based; path must be that
// of the znode.
func (n Node) BodySum(path string, b *Scratch) uint32 { return n.t.sumOf(n.t.nodes.At(n.id), path, b) }

// Child returns the direct child with a name, if there is one.
func (n Node) Child(name string) (child Node, ok bool) {
	id, ok := n.t.child(n.id, name)
	return Node{n.t, id}, ok
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

// ChildrenAfter appends names of direct children, in the order of Children, starting after the
// child named after, or with the first for "". It appends at most limit names, and ends with
// the name whose bytes reach bytesMax. more reports whether other names follow; ok is false if
// there is no child named after. A child keeps its place among the others as long as it and
// this tree exist (see Tree.Replaced); a new child comes before all others.
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

// Descendants returns the number of znodes below this one, at any depth.
func (n Node) Descendants() int { return int(n.t.restOf(n.t.nodes.At(n.id)).below) }

// first returns the head of a znode's list of children.
func (t *Tree) first(id uint32) uint32 { return t.restOf(t.nodes.At(id)).first }

// following returns the znode after id in a walk, parents first, over what is below top; noNode
// at the end.
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
