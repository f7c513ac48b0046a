// Package tree is the data tree: every znode with its data, stat and ACL, the index that finds
// it, and what is derived from it (ephemerals by session, containers, TTL znodes, quotas, the
// digest).
//
// Transactions enter through Apply, which decides nothing and cannot fail; it returns results
// and changes. Readers look at the tree between transactions: Apply is called with the tree
// locked, Find and what it returns with the tree locked for reading. The one goroutine that
// applies may also read without a lock, since nobody else writes.
//
// What always holds, by number:
//
//	tree-N1  A transaction is visible as a whole or not at all (a multi
//	         included).
//	tree-N2  Applying a transaction again, on a tree that already contains it or
//	         later ones, leads to the same tree once replay has passed the last
//	         change contained (fuzzy snapshots depend on it).
//	tree-N3  The digest is the sum over all znodes of their checksums (see
//	         digest.go).
//	tree-N4  Parents come before children in every Scan.
//
// Memory: a znode is one or two fixed records without pointers in large slabs, and its name and
// data are one block in a byte arena. So the garbage collector sees some thousand objects for
// ten million znodes, and scans none of them.
//
// The package knows nothing about sessions except their ids, and nothing about watches and
// files.
package tree

import (
	"strings"
	"sync"

	"github.com/conclave-project/conclave/internal/compact"
	"github.com/conclave-project/conclave/internal/pathset"
	"github.com/conclave-project/conclave/zk"
)

// Options are the settings that change what a tree means.
type Options struct {
	ExtendedTypes bool // TTL znodes exist (extendedTypesEnabled)
}

// Tree is a data tree. See the package comment for who may call what.
type Tree struct {
	mu sync.RWMutex
	content
	replaced int // how often the content was replaced
	longest  int // the longest data, in bytes, that a znode has had
}

// content is everything that a tree holds.
type content struct {
	opts      Options
	nodes     compact.Slab[znode]
	rests     compact.Slab[rest]
	index     compact.Index
	blocks    compact.Arena
	acls      aclTable
	owned     ownedLists
	quotas    map[string]Limits   // the paths that have a quota
	limited   pathset.Map[string] // the same
	appeared  []string            // paths whose usage has to be written at the end of this transaction
	walks     []*Scan             // scans under way
	digest    uint64
	directory share   // what addDirectory has added last
	scratch   Scratch // for changes
	past      []PastDigest
	last      zk.Zxid
	textSize  int64 // total bytes of all paths and data
}

// New returns a tree with the znodes that always exist.
func New(opts Options) *Tree {
	t := &Tree{content: content{opts: opts, quotas: map[string]Limits{}}}
	t.index = compact.NewIndex()
	t.acls.init()
	t.owned.init()
	t.textSize = 1 // ZooKeeper stores the root under two keys, "" and "/"
	root := t.nodes.Take()
	t.nodes.At(root).parent = noNode
	var stat zk.StatPersisted
	sum := BodySum("", nil, &t.scratch)
	t.fill(root, "", "", []byte{}, sum, openACL, &stat)
	t.addDigest(root, sum, &stat)
	for _, path := range []string{zk.SystemPath, zk.QuotaPath} {
		t.insert(path, []byte{}, openACL, zk.StatPersisted{})
	}
	t.insert(zk.ConfigPath, []byte{}, t.acls.add(zk.ReadACL()), zk.StatPersisted{Aversion: -1})
	return t
}

// Become takes over everything that another tree holds, which must not be used any more. A
// reader of this tree sees the other content from then on. It is called when a leader has sent
// its state, or the log was truncated. Scans under way are cancelled.
func (t *Tree) Become(other *Tree) {
	t.mu.Lock()
	defer t.mu.Unlock()
	walks := t.walks
	t.content = other.content
	t.noteLength(other.LongestData())
	t.walks = nil
	t.replaced++
	for _, s := range walks {
		s.at, s.cut = noNode, true
	}
}

// LongestData returns an upper bound for the bytes of data of any znode.
func (t *Tree) LongestData() int { return t.longest }

// noteLength records the length of data that a znode is given.
func (t *Tree) noteLength(bytes int) { t.longest = max(t.longest, bytes) }

// Replaced returns how often the content was replaced by another tree's.
func (t *Tree) Replaced() int { return t.replaced }

// PutConfig writes a server's description of its ensemble into the znode for it. This is not a
// transaction: the content is the server's own, and the digest does not include it
// (ZOOKEEPER-2819).
func (t *Tree) PutConfig(text []byte, version zk.Zxid, timeMs int64) {
	id, ok := t.find(zk.ConfigPath)
	if !ok {
		return
	}
	n := t.nodes.At(id)
	t.setData(n, text)
	t.setWritten(n, version, timeMs, -1)
}

// Lock keeps readers out: until Unlock, transactions are applied and watchers are notified of
// their changes.
func (t *Tree) Lock() { t.mu.Lock() }

// Unlock lets readers see what was applied.
func (t *Tree) Unlock() { t.mu.Unlock() }

// RLock keeps transactions out while a reader uses the tree.
func (t *Tree) RLock() { t.mu.RLock() }

// RUnlock ends that.
func (t *Tree) RUnlock() { t.mu.RUnlock() }

// LastZxid returns the zxid of the last transaction applied.
func (t *Tree) LastZxid() zk.Zxid { return t.last }

// SetLastZxid sets the zxid up to which the tree contains transactions, after a snapshot was
// loaded.
func (t *Tree) SetLastZxid(z zk.Zxid) { t.last = z }

// Count returns the number of znodes, the root included.
func (t *Tree) Count() int { return t.nodes.Len() }

// TextBytes returns the total length of all paths and data, as ZooKeeper's
// approximate_data_size counts it.
func (t *Tree) TextBytes() int64 { return t.textSize }

// Extended reports whether TTL znodes exist here.
func (t *Tree) Extended() bool { return t.opts.ExtendedTypes }

// Find returns the znode at path. The empty path is another name of the root; a path that
// cannot exist is simply not found.
func (t *Tree) Find(path string) (Node, bool) {
	id, ok := t.find(path)
	return Node{t, id}, ok
}

// Place is where a tree had a znode when Node.Place was called. The zero value is nowhere.
type Place struct {
	id       uint32
	replaced uint32 // see Replaced
	czxid    zk.Zxid
}

// findAt is find with the likely place of the znode. A place is valid as long as the same znode
// is there: one that came to that place later has a higher czxid, and znodes that one
// transaction creates have different places.
func (t *Tree) findAt(at Place, path string) (uint32, bool) {
	if at.id != noNode && int(at.replaced) == t.replaced {
		if n := t.nodes.At(at.id); n.czxid == at.czxid && t.name(n) == path[1+strings.LastIndexByte(path, '/'):] {
			return at.id, true
		}
	}
	return t.find(path)
}

func (t *Tree) find(path string) (uint32, bool) {
	if path == "" || path == "/" {
		return rootNode, true
	}
	if path[0] != '/' {
		return 0, false
	}
	id, start := uint32(rootNode), 1
	for i := 1; ; i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		child, ok := t.child(id, path[start:i])
		if !ok || i == len(path) {
			return child, ok
		}
		id, start = child, i+1
	}
}

// child looks up a name under parent.
func (t *Tree) child(parent uint32, name string) (uint32, bool) {
	return t.childOf(parent, name, t.index.Hash(parent, name))
}

// childOf is child with the hash of parent and name, which insertUnder needs too.
func (t *Tree) childOf(parent uint32, name string, hash uint64) (uint32, bool) {
	return t.index.Find(hash, func(id uint32) bool {
		n := t.nodes.At(id)
		return n.parent == parent && t.name(n) == name
	})
}

// insert adds a znode that does not exist yet and whose parent exists.
func (t *Tree) insert(path string, data []byte, acl uint32, s zk.StatPersisted) {
	parentPath, name := zk.SplitPath(path)
	parent, ok := t.find(parentPath)
	if !ok {
		panic("tree: insert without a parent: " + path)
	}
	sum, hash := BodySum(path, data, &t.scratch), t.index.Hash(parent, name)
	id := t.insertUnder(parent, path, name, hash, data, sum, acl, &s)
	t.countBelow(t.nodes.At(id), 1)
	t.addDigest(id, sum, &s)
}

// insertUnder adds a znode and links it everywhere except in its parent's stat, the counts of
// the znodes above it, and the digest.
func (t *Tree) insertUnder(parent uint32, path, name string, hash uint64, data []byte, sum, acl uint32, s *zk.StatPersisted) uint32 {
	id := t.nodes.Take()
	n := t.nodes.At(id)
	n.parent = parent
	t.fill(id, path, name, data, sum, acl, s)
	if _, limited := t.quotas[path]; limited {
		t.needRest(n).limited = true
	}
	t.link(parent, id)
	t.index.Put(hash, id)
	t.own(id)
	return id
}

// fill stores name, data, ACL and stat of a new record.
func (t *Tree) fill(id uint32, path, name string, data []byte, sum, acl uint32, s *zk.StatPersisted) {
	n := t.nodes.At(id)
	if acl != openACL || !plainStat(s) {
		n.head |= withRest
	}
	if s.Mzxid != s.Czxid || s.Mtime != s.Ctime || s.Version != 0 {
		n.head |= withWrite
	}
	t.store(n, name, data, s.Ctime)
	t.setStat(n, s)
	t.useACL(n, acl)
	t.keepSum(n, sum)
	t.textSize += int64(len(path) + len(data))
}

// remove removes a childless znode, and everything that points at it.
func (t *Tree) remove(id uint32, path string) {
	n := t.nodes.At(id)
	s := t.stat(n)
	t.subDigest(id, t.sumOf(n, path, &t.scratch), &s)
	t.disown(id)
	t.index.Remove(t.index.Hash(n.parent, t.name(n)), id)
	t.leaveWalks(id)
	t.unlink(n.parent, id)
	t.textSize -= int64(len(path)) + int64(t.dataBytes(n))
	t.acls.release(t.restOf(n).acl, len(t.walks) > 0)
	bytes := t.blockBytes(n) // needs the rest, for the length of a long name
	if n.head&withRest != 0 {
		t.rests.Give(t.restPlace(n))
	}
	t.blocks.Free(n.block, bytes)
	t.nodes.Give(id)
}
