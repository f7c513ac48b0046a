package tree

import (
	"encoding/binary"
	"hash/crc32"
	"unsafe"

	"github.com/conclave-project/conclave/zk"
)

// The digest of a tree (version 2, ZOOKEEPER-3114) is the sum modulo 2^64, over all znodes, of
// the CRC-32 of path, data and 60 bytes of stat. A CRC can be continued where it stopped. So
// the part over path and data, which may be long, is kept for a znode that is wide, was
// written, or has a rest: above all for znodes with much data, and for directories, whose stat
// changes with each child. For other znodes it is computed when it is needed, over at most
// narrowMax bytes of data.

const statBytes = 60

// A Scratch is where the input of a checksum is assembled. What package crc32 sums is always on
// the heap. A write sums four stats, so its caller provides the space.
type Scratch [512]byte

// The fast path of package crc32 needs at least fastLeast bytes, and takes fastStep bytes at a
// time.
const fastLeast, fastStep = 64, 16

// end returns the end of the scratch, of the given length, and what is to be summed: these
// bytes with enough zeros before them for the fast path. The zeros add nothing to a sum that
// begins with zero.
func (b *Scratch) end(bytes int) (own, all []byte) {
	all = b[len(b)-max(fastLeast, (bytes+fastStep-1)/fastStep*fastStep):]
	clear(all[:len(all)-bytes])
	return all[len(all)-bytes:], all
}

// sumFrom returns the sum of what end has returned, continuing from the sum of what came
// before. To begin with zero, it puts that sum into the first four bytes. Package crc32 inverts
// the bits of a sum when it takes one, and when it returns one.
func sumFrom(before uint32, own, all []byte) uint32 {
	binary.LittleEndian.PutUint32(own, binary.LittleEndian.Uint32(own)^^before)
	return crc32.Update(^uint32(0), crc32.IEEETable, all)
}

// BodySum is the CRC-32 of a path and its data, which Checksum continues. Null data counts as
// empty.
func BodySum(path string, data []byte, b *Scratch) uint32 {
	if path == "/" {
		path = ""
	}
	if bytes := len(path) + len(data); bytes <= len(b) && bytes >= 4 {
		own, all := b.end(bytes)
		copy(own[copy(own, path):], data)
		return sumFrom(0, own, all)
	}
	sum := crc32.Update(0, crc32.IEEETable, unsafe.Slice(unsafe.StringData(path), len(path)))
	return crc32.Update(sum, crc32.IEEETable, data)
}

// Checksum is one znode's part of the digest. It is zero below /zookeeper, whose content
// differs between servers.
func Checksum(path string, bodySum uint32, s *zk.StatPersisted, b *Scratch) uint64 {
	if len(path) > len(zk.SystemPath) && path[:len(zk.SystemPath)+1] == zk.SystemPath+"/" {
		return 0
	}
	return statSum(bodySum, s, b)
}

func statSum(bodySum uint32, s *zk.StatPersisted, b *Scratch) uint64 {
	stat, all := b.end(statBytes)
	binary.BigEndian.PutUint64(stat[0:], uint64(s.Czxid))
	binary.BigEndian.PutUint64(stat[8:], uint64(s.Mzxid))
	binary.BigEndian.PutUint64(stat[16:], uint64(s.Pzxid))
	binary.BigEndian.PutUint64(stat[24:], uint64(s.Ctime))
	binary.BigEndian.PutUint64(stat[32:], uint64(s.Mtime))
	binary.BigEndian.PutUint32(stat[40:], uint32(s.Version))
	binary.BigEndian.PutUint32(stat[44:], uint32(s.Cversion))
	binary.BigEndian.PutUint32(stat[48:], uint32(s.Aversion))
	binary.BigEndian.PutUint64(stat[52:], uint64(s.EphemeralOwner))
	return uint64(sumFrom(bodySum, stat, all))
}

// Digest returns the digest of the whole tree.
func (t *Tree) Digest() zk.Digest { return zk.Digest{Version: zk.DigestVersion, Value: t.digest} }

// PastDigest is the digest that the tree had at a zxid.
type PastDigest struct {
	Zxid  zk.Zxid
	Value uint64
}

// The past digests that are kept, as in ZooKeeper (DIGEST_LOG_INTERVAL and DIGEST_LOG_LIMIT):
// those at each zxid that is divisible by pastEvery, and of them the newest pastMax.
const (
	pastEvery = 128
	pastMax   = 1024
)

// PastDigests returns the past digests that are kept, oldest first. Call it with the tree
// locked for reading; the slice is valid until the tree is unlocked.
func (t *Tree) PastDigests() []PastDigest { return t.past }

// KeepDigest keeps the digest for PastDigests if the last zxid is one of those. Call it after a
// transaction, with the tree locked, unless the tree is ahead of its zxid.
func (t *Tree) KeepDigest() {
	if t.last%pastEvery != 0 {
		return
	}
	if len(t.past) == pastMax {
		t.past = t.past[:copy(t.past, t.past[1:])]
	}
	t.past = append(t.past, PastDigest{t.last, t.digest})
}

// sumOf returns the BodySum of a znode at path. If it is kept, it is in the last four bytes of
// the front part of the block, or in the rest if that front part holds nothing but the place of
// the rest.
func (t *Tree) sumOf(n *znode, path string, b *Scratch) uint32 {
	switch {
	case n.head&summed == 0:
		return BodySum(path, t.data(n), b)
	case n.head&(withWide|withWrite) != 0:
		return binary.LittleEndian.Uint32(t.sumPlace(n))
	}
	return t.restOf(n).bodySum
}

// sumPlace returns where the BodySum is kept of a znode that is wide or was written.
func (t *Tree) sumPlace(n *znode) []byte {
	end := n.head.bytes()
	return t.blocks.Bytes(n.block, end)[end-4:]
}

// bodySum is sumOf, and also keeps the sum.
func (t *Tree) bodySum(n *znode, path string) uint32 {
	sum := t.sumOf(n, path, &t.scratch)
	if n.head&summed == 0 {
		t.keepSum(n, sum)
	}
	return sum
}

// keepSum keeps the BodySum of a znode, if there is a place for it.
func (t *Tree) keepSum(n *znode, sum uint32) {
	switch {
	case n.head&(withWide|withWrite) != 0:
		binary.LittleEndian.PutUint32(t.sumPlace(n), sum)
	case n.head&withRest != 0:
		t.restOf(n).bodySum = sum
	default:
		return
	}
	n.head |= summed
}

// addDigest and subDigest surround every change of a znode. subDigest gets its BodySum and its
// stat before the change, addDigest those after it.
func (t *Tree) addDigest(id, bodySum uint32, s *zk.StatPersisted) {
	t.digest += t.checksum(id, bodySum, s)
}

func (t *Tree) subDigest(id, bodySum uint32, s *zk.StatPersisted) {
	if id == t.directory.id {
		t.digest -= t.directory.sum
		t.directory = share{}
		return
	}
	t.digest -= t.checksum(id, bodySum, s)
}

// share is what a znode adds to the digest; its id is noNode for none.
type share struct {
	id  uint32
	sum uint64
}

// addDirectory is addDigest for a znode whose children come and go, usually many of them: what
// it adds is remembered until it is subtracted.
func (t *Tree) addDirectory(id, bodySum uint32, s *zk.StatPersisted) {
	t.directory = share{id, t.checksum(id, bodySum, s)}
	t.digest += t.directory.sum
}

func (t *Tree) checksum(id, bodySum uint32, s *zk.StatPersisted) uint64 {
	if t.belowSystem(id) {
		return 0
	}
	return statSum(bodySum, s, &t.scratch)
}

// systemNode is /zookeeper, the second record of every tree.
const systemNode = rootNode + 1

func (t *Tree) belowSystem(id uint32) bool {
	for id != rootNode {
		parent := t.nodes.At(id).parent
		if parent == systemNode {
			return true
		}
		if parent == noNode {
			return false
		}
		id = parent
	}
	return false
}
