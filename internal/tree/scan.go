package tree

import (
	"slices"
	"unsafe"

	"github.com/conclave-project/conclave/zk"
)

// Entry is one znode as a snapshot stores it. Path and Data alias the text that was passed to
// Next.
type Entry struct {
	Path string // "" for the root
	Data []byte
	ACL  int64 // number in the table of ACLs, -1 for the open one
	Stat zk.StatPersisted
}

// Scan walks over all znodes, parents before children (tree-N4), while transactions go on
// between its steps. It never returns a znode in the middle of a change, misses nothing that
// was there at its start and still is, and may include changes made after its start. That is
// what a fuzzy snapshot needs.
type Scan struct {
	t   *Tree
	at  uint32 // the next znode to return
	cut bool   // the tree was replaced by another one

	parent uint32 // of the last znode returned; noNode if that is not known
	prefix string // its path and a slash: siblings share it
}

// NewScan starts a walk. Call it between transactions, with the tree not locked, and call End
// when it is no longer needed.
func (t *Tree) NewScan() *Scan {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &Scan{t: t, at: rootNode}
	t.walks = append(t.walks, s)
	return s
}

// Scans returns how many walks are under way.
func (t *Tree) Scans() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.walks)
}

// End removes the walk from the tree. Call it with the tree not locked, from any goroutine; it
// may be called again.
func (s *Scan) End() {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	s.t.walks = slices.DeleteFunc(s.t.walks, func(other *Scan) bool { return other == s })
	if len(s.t.walks) == 0 {
		s.t.acls.unhold()
	}
}

// Cut reports whether the tree was replaced by another one before the walk was over: what it
// has returned is not complete.
func (s *Scan) Cut() bool { return s.cut }

// Next returns the next znode, whose path and data it appends to text; false at the end. Call
// it with the tree locked for reading.
func (s *Scan) Next(e *Entry, text []byte) (longer []byte, ok bool) {
	if s.at == noNode {
		return text, false
	}
	t, n := s.t, s.t.nodes.At(s.at)
	start := len(text)
	name, data := t.text(n)
	if s.at != rootNode {
		if n.parent != s.parent {
			s.parent, s.prefix = n.parent, zk.JoinPath(t.path(n.parent), "")
		}
		text = append(append(text, s.prefix...), name...)
	}
	pathEnd := len(text)
	text = append(text, data...)
	e.Path = unsafe.String(unsafe.SliceData(text[start:pathEnd]), pathEnd-start)
	if e.Data = data; len(data) > 0 { // null stays null, empty stays empty
		e.Data = text[pathEnd:len(text):len(text)]
	}
	e.Stat, e.ACL = t.stat(n), -1
	if acl := t.restOf(n).acl; acl != openACL {
		e.ACL = int64(acl)
	}
	s.at = t.following(s.at, rootNode)
	return text, true
}

// leaveWalks moves every walk that is about to return a znode past it, before the znode is
// removed. It has no children, so nothing below it is missed. What a walk remembers about it is
// forgotten, because its number will be given to another znode.
func (t *Tree) leaveWalks(id uint32) {
	for _, s := range t.walks {
		if s.parent == id {
			s.parent = noNode
		}
		if s.at == id {
			s.at = t.following(id, rootNode)
		}
	}
}

// ACLs calls visit with every stored ACL, except the open one, and its number.
func (t *Tree) ACLs(visit func(id int64, entries []zk.ACL)) {
	for id, l := range t.acls.lists {
		if uint32(id) != openACL && l.users > 0 {
			visit(int64(id), l.list.Entries())
		}
	}
}
