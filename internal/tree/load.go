package tree

import (
	"fmt"
	"strings"

	"github.com/conclave-project/conclave/zk"
)

// Loader fills a new tree from a snapshot. The snapshot may or may not contain the znodes that
// always exist; parents come before children.
type Loader struct {
	t        *Tree
	acls     map[int64]uint32
	held     []uint32 // one use of each ACL, released by Finish
	lastPath string   // parent of the last znode
	last     uint32
	more     int32 // znodes below it that are not counted yet, and the bytes of their data
	bytes    int64
	lastACL  int64 // ACL of the last znode whose ACL is in the table
	lastList uint32
	hashes   []uint64 // of the znodes that come next
	touched  uint64   // a meaningless value, see Fetcher
}

// Load starts to fill t, which must be new.
func (t *Tree) Load() *Loader {
	return &Loader{t: t, acls: map[int64]uint32{-1: openACL}, lastACL: -1, lastList: openACL}
}

// Expect reserves space for a total number of znodes. It is an estimate: there may be fewer, or
// more.
func (l *Loader) Expect(znodes int) { l.t.index.Reserve(znodes) }

// Prepare receives the paths of the znodes that come next. Their places in the index are
// fetched from memory all at once, instead of one after another.
func (l *Loader) Prepare(paths []string) {
	l.hashes = l.hashes[:0]
	for _, path := range paths {
		if parentPath, name := zk.SplitPath(path); l.last != noNode && parentPath == l.lastPath {
			l.hashes = append(l.hashes, l.t.index.Hash(l.last, name))
		}
	}
	l.touched ^= l.t.index.Touch(l.hashes)
}

// ACL adds an entry of the snapshot's table of ACLs.
func (l *Loader) ACL(id int64, entries []zk.ACL) {
	l.acls[id] = l.t.acls.add(entries)
	l.held = append(l.held, l.acls[id])
	l.lastACL, l.lastList = id, l.acls[id]
}

// Node adds a znode. It fails for a znode without a parent, which only a broken snapshot has.
// An ACL that is missing in the table, as it may be in a fuzzy snapshot, becomes an empty one:
// only a super user has access until the log, which has the ACL, has been replayed.
func (l *Loader) Node(path string, data []byte, acl int64, s zk.StatPersisted) error {
	return l.NodeSummed(path, data, acl, s, SumsOf(path, data, &s, &l.t.scratch))
}

// Sums are what a znode adds to the digest (Znode), and the part of that for path and data
// (Body).
type Sums struct {
	Body  uint32
	Znode uint64
}

// SumsOf computes the sums of a znode, independently of any tree. It may run concurrently with
// everything else.
func SumsOf(path string, data []byte, s *zk.StatPersisted, b *Scratch) Sums {
	body := BodySum(path, data, b)
	return Sums{body, Checksum(path, body, s, b)}
}

// NodeSummed is Node for a znode whose sums are known.
func (l *Loader) NodeSummed(path string, data []byte, acl int64, s zk.StatPersisted, sums Sums) error {
	if path == "" || path == "/" {
		l.replace(rootNode, path, data, l.use(acl), &s, sums)
		return nil
	}
	parentPath, name := zk.SplitPath(path)
	if err := l.goTo(parentPath, path); err != nil {
		return err
	}
	hash := l.t.index.Hash(l.last, name)
	id, exists := l.t.childOf(l.last, name, hash)
	if exists {
		l.replace(id, path, data, l.use(acl), &s, sums)
		return nil
	}
	l.t.insertUnder(l.last, path, name, hash, data, sums.Body, l.use(acl), &s)
	l.t.digest += sums.Znode
	l.more++
	l.bytes += int64(len(data))
	return nil
}

// count counts everything that came below the last parent at once. No znode has a quota yet.
func (l *Loader) count() {
	if l.more > 0 {
		l.t.addBelow(l.last, l.more)
		l.t.count(l.last, l.more, l.bytes)
		l.more, l.bytes = 0, 0
	}
}

// use adds a use of an ACL.
func (l *Loader) use(acl int64) uint32 {
	if acl != l.lastACL {
		list, ok := l.acls[acl]
		if !ok {
			return l.t.acls.add([]zk.ACL{{Identity: zk.Identity{Scheme: "world", ID: "anyone"}}})
		}
		l.lastACL, l.lastList = acl, list
	}
	l.t.acls.lists[l.lastList].users++
	return l.lastList
}

// goTo makes the parent of the znode at path the last one.
func (l *Loader) goTo(parentPath, path string) error {
	if l.last != noNode && parentPath == l.lastPath {
		return nil
	}
	parent, ok := l.t.find(parentPath)
	if !ok {
		return fmt.Errorf("tree: snapshot has %q before its parent", path)
	}
	l.count()
	l.last, l.lastPath = parent, strings.Clone(parentPath)
	return nil
}

// replace gives an existing znode the values of the snapshot.
func (l *Loader) replace(id uint32, path string, data []byte, acl uint32, s *zk.StatPersisted, sums Sums) {
	n := l.t.nodes.At(id)
	before := l.t.stat(n)
	l.t.subDigest(id, l.t.bodySum(n, path), &before)
	l.t.disown(id)
	l.t.setData(n, data)
	l.t.acls.release(l.t.restOf(n).acl, false)
	l.t.useACL(n, acl)
	l.t.setStat(n, s)
	l.t.keepSum(n, sums.Body)
	l.t.own(id)
	l.t.digest += sums.Znode
}

// Finish ends the loading: the tree contains all transactions up to last.
func (l *Loader) Finish(last zk.Zxid) {
	l.count()
	for _, id := range l.held {
		l.t.acls.release(id, false)
	}
	l.t.findQuotas()
	l.t.last = last
}
