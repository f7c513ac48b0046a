// Package tree is the data tree: every znode, with its data, stat and ACL, the
// index that finds it, and the lists that follow from it (ephemerals by
// session, containers, TTL znodes, quotas, the digest).
//
// Transactions go in through Apply, which decides nothing and cannot fail; what
// changed comes out as results and changes. Readers look at the tree between
// transactions: Apply is called with the tree locked, Find and what it returns
// with the tree locked for reading. The one goroutine that applies may also
// look without a lock, since nobody else writes.
//
// What always holds, by number:
//
//	tree-N1  A transaction is visible as a whole or not at all (a multi
//	         included).
//	tree-N2  Applying a transaction again, on a tree that already contains it or
//	         later ones, leads to the same tree once replay has passed the last
//	         change contained (fuzzy snapshots rest on it).
//	tree-N3  The digest is the sum over all znodes of their checksums (see
//	         digest.go).
//	tree-N4  Parents come before children in every Scan.
//
// Memory. A znode is one fixed record, or two, without a pointer in large slabs,
// its name and data one block in a byte arena: the garbage collector sees some
// thousand objects where there are ten million znodes, and scans none of them.
//
// The package knows no sessions but their ids, no watches and no files.
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
	longest  int // data that a znode has had, in bytes
}

// content is all that a tree holds.
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
	appeared  []string            // the paths whose usage has appeared in this transaction, to be counted
	walks     []*Scan             // snapshots under way
	digest    uint64
	directory share   // that addDirectory has added last
	scratch   Scratch // of changes
	past      []PastDigest
	last      zk.Zxid
	textSize  int64 // bytes of all paths and data
}

// New returns a tree with the znodes that always exist.
func New(opts Options) *Tree {
	t := &Tree{content: content{opts: opts, quotas: map[string]Limits{}}}
	t.index = compact.NewIndex()
	t.acls.init()
	t.owned.init()
	t.textSize = 1 // ZooKeeper holds the root under two keys, "" and "/"
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

// Become takes over all that another tree holds, which must not be used any
// more. A reader that holds this tree sees the other content from then on: a leader has
// sent its state, or the log was truncated. Scans under way are cancelled.
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

// LongestData returns a bound of how many bytes of data a znode has.
func (t *Tree) LongestData() int { return t.longest }

// noteLength notes how long data are that a znode gets.
func (t *Tree) noteLength(bytes int) { t.longest = max(t.longest, bytes) }

// Replaced returns how often the content was replaced by another tree's.
func (t *Tree) Replaced() int { return t.replaced }

// PutConfig writes what a server says of its ensemble into the znode for it. It
// is no transaction: the content is the server's own, and not in the digest
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

// Lock keeps readers out: from here on until Unlock transactions are applied
// and their changes told to the watchers.
func (t *Tree) Lock() { t.mu.Lock() }

// Unlock lets readers see what was applied.
func (t *Tree) Unlock() { t.mu.Unlock() }

// RLock keeps transactions out while a reader looks.
func (t *Tree) RLock() { t.mu.RLock() }

// RUnlock ends a look.
func (t *Tree) RUnlock() { t.mu.RUnlock() }

// LastZxid returns the last transaction applied.
func (t *Tree) LastZxid() zk.Zxid { return t.last }

// SetLastZxid states what the tree contains; used after loading a snapshot.
func (t *Tree) SetLastZxid(z zk.Zxid) { t.last = z }

// Count returns the number of znodes, the root included.
func (t *Tree) Count() int { return t.nodes.Len() }

// TextBytes returns the sum of the lengths of all paths and data, as
// ZooKeeper's approximate_data_size counts it.
func (t *Tree) TextBytes() int64 { return t.textSize }

// Extended reports whether TTL znodes exist here.
func (t *Tree) Extended() bool { return t.opts.ExtendedTypes }

// Find returns the znode at path. The empty path is the root's other name; a
// path that cannot exist is simply not found.
func (t *Tree) Find(path string) (Node, bool) {
	id, ok := t.find(path)
	return Node{t, id}, ok
}

// Place is where a tree had a znode when it was asked for (Node.Place). The zero value is
// nowhere.
type Place struct {
	id       uint32
	replaced uint32 // see Replaced
	czxid    zk.Zxid
}

// findAt is find where the znode is likely to be: a place is that of the path as long as the
// same znode is there. One that came to it later has a later czxid, and those that one
// transaction creates have places of their own.
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

// childOf is child with the hash of both, which insertUnder needs too.
func (t *Tree) childOf(parent uint32, name string, hash uint64) (uint32, bool) {
	return t.index.Find(hash, func(id uint32) bool {
		n := t.nodes.At(id)
		return n.parent == parent && t.name(n) == name
	})
}

// insert adds a znode whose parent exists and which does not exist yet.
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

// insertUnder adds a znode and links it everywhere but into its parent's stat, the counts of those
// above it, and the digest.
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

// fill stores name, data, ACL and stat of a fresh record.
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

// remove takes a childless znode out, with everything that points at it.
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
	bytes := t.blockBytes(n) // asks the rest for the length of a long name
	if n.head&withRest != 0 {
		t.rests.Give(t.restPlace(n))
	}
	t.blocks.Free(n.block, bytes)
	t.nodes.Give(id)
}
