package tree

import (
	"fmt"
	"strings"

	"github.com/conclave-project/conclave/zk"
)

// Loader fills a new tree from a snapshot. The znodes that always exist may be
// in it or not; parents come before children.
type Loader struct {
	t        *Tree
	acls     map[int64]uint32
	held     []uint32 // one use of each list, released by Finish
	lastPath string   // parent of the last znode
	last     uint32
	lastACL  int64 // of the last znode that has one in the table
	lastList uint32
	hashes   []uint64 // of znodes that come next
	touched  uint64   // of no meaning
}

// Load starts to fill t, which must be new.
func (t *Tree) Load() *Loader {
	return &Loader{t: t, acls: map[int64]uint32{-1: openACL}, lastACL: -1, lastList: openACL}
}

// Expect makes space for so many znodes in all: a guess, there may be fewer, or more.
func (l *Loader) Expect(znodes int) { l.t.index.Reserve(znodes) }

// Prepare tells the paths of znodes that come next. What the index has in their places is
// fetched from memory at one time, and not for one after the other.
func (l *Loader) Prepare(paths []string) {
	l.hashes = l.hashes[:0]
	for _, path := range paths {
		if parentPath, name := zk.SplitPath(path); l.last != noNode && parentPath == l.lastPath {
			l.hashes = append(l.hashes, l.t.index.Hash(l.last, name))
		}
	}
	l.touched ^= l.t.index.Touch(l.hashes)
}

// ACL adds a list of the snapshot's table.
func (l *Loader) ACL(id int64, entries []zk.ACL) {
	l.acls[id] = l.t.acls.add(entries)
	l.held = append(l.held, l.acls[id])
	l.lastACL, l.lastList = id, l.acls[id]
}

// Node adds a znode. It fails for one without a parent, which only a broken
// snapshot has. A list that the table lacks, which a fuzzy snapshot may have,
// becomes the empty list: nobody but a super user gets in until the log, which
// has the list, has been replayed.
func (l *Loader) Node(path string, data []byte, acl int64, s zk.StatPersisted) error {
	id, err := l.place(path)
	if err != nil {
		return err
	}
	list := l.use(acl)
	if id == noNode {
		_, name := zk.SplitPath(path)
		l.t.insertUnder(l.last, path, name, data, BodySum(path, data, &l.t.scratch), list, &s)
		return nil
	}
	l.replace(id, path, data, list, s)
	return nil
}

// use adds a use of a list.
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

// place finds a znode that exists already, or makes its parent the last one.
func (l *Loader) place(path string) (uint32, error) {
	if path == "" || path == "/" {
		return rootNode, nil
	}
	parentPath, name := zk.SplitPath(path)
	if l.last == noNode || parentPath != l.lastPath {
		parent, ok := l.t.find(parentPath)
		if !ok {
			return noNode, fmt.Errorf("tree: snapshot has %q before its parent", path)
		}
		l.last, l.lastPath = parent, strings.Clone(parentPath)
	}
	id, ok := l.t.child(l.last, name)
	if !ok {
		return noNode, nil
	}
	return id, nil
}

func (l *Loader) replace(id uint32, path string, data []byte, acl uint32, s zk.StatPersisted) {
	n := l.t.nodes.At(id)
	before := l.t.stat(n)
	l.t.subDigest(id, &before)
	l.t.disown(id)
	l.t.setData(n, data)
	n.bodySum = BodySum(path, data, &l.t.scratch)
	l.t.acls.release(l.t.restOf(n).acl, false)
	l.t.useACL(n, acl)
	l.t.setStat(n, &s)
	l.t.own(id)
	l.t.addDigest(id, &s)
}

// Finish ends the loading: the tree contains all transactions up to last.
func (l *Loader) Finish(last zk.Zxid) {
	for _, id := range l.held {
		l.t.acls.release(id, false)
	}
	l.t.findQuotas()
	l.t.last = last
}
