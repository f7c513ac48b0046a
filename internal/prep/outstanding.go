package prep

import (
	"slices"
	"strings"

	"github.com/conclave-project/conclave/internal/acl"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/zk"
)

// change is one znode as it will be once a transaction has been applied.
type change struct {
	path     string
	zxid     zk.Zxid
	stat     zk.StatPersisted
	children int32
	dataLen  int32
	acl      acl.List
	node     tree.Node // the znode that this was filled in from, for bodySum; empty once this is recorded
	bodySum  uint32
	summed   bool // bodySum is known; always true of a recorded znode
	exists   bool
	current  bool    // no later change of the path
	sum      uint64  // its part of the digest, 0 if that is not known
	before   *change // what path was when this change was decided, nil if as in the tree
	ends     int64   // instead of a path: the owner whose session ends, with all its znodes
	at       tree.Place
	made     int64 // bytes of the path, if this creates an ephemeral
}

// outstanding holds the changes that are decided but not applied: all of them in order,
// the last one of each path, and those of each owner's znodes in order. Many sessions may
// end at once, and none must go through the changes of all. The znodes in the tree of a
// session that ends have no change of their own, because there may be millions.
type outstanding struct {
	queue   []*change // valid from head on
	head    int
	byPath  map[string]*change
	byOwner map[int64][]*change
	made    map[int64]int64    // bytes of the paths that are created, by owner
	ended   map[int64]struct{} // owners whose znodes in the tree are deleted, except those in byPath
	unused  []*change
}

func newOutstanding() outstanding {
	return outstanding{byPath: map[string]*change{}, byOwner: map[int64][]*change{}, made: map[int64]int64{}, ended: map[int64]struct{}{}}
}

func (o *outstanding) size() int { return len(o.queue) - o.head }

// record takes a slot for a change of a path and makes it the path's last one. Its before is
// the previous last one.
func (o *outstanding) record(c *change) {
	slot := o.slot()
	if c.before != nil {
		c.before.current = false
	}
	*slot = *c
	slot.current = true
	o.queue = append(o.queue, slot)
	o.byPath[c.path] = slot
	if owner := c.stat.EphemeralOwner; owner != 0 {
		o.byOwner[owner] = append(o.byOwner[owner], slot)
	}
	if c.made != 0 {
		o.made[c.stat.EphemeralOwner] += c.made
	}
}

// end takes a slot for the end of a session.
func (o *outstanding) end(owner int64, zxid zk.Zxid) {
	slot := o.slot()
	*slot = change{zxid: zxid, ends: owner}
	o.queue = append(o.queue, slot)
	o.ended[owner] = struct{}{}
}

// release undoes the bookkeeping of a change that has left the queue. first is true for
// a change at the front of its owner's list, false for one at the end.
func (o *outstanding) release(c *change, first bool) {
	if owner := c.stat.EphemeralOwner; owner != 0 {
		left := o.byOwner[owner]
		if first {
			left = left[1:]
		} else {
			left = left[:len(left)-1]
		}
		if o.byOwner[owner] = left; len(left) == 0 {
			delete(o.byOwner, owner)
		}
	}
	if owner := c.stat.EphemeralOwner; c.made != 0 {
		if o.made[owner] -= c.made; o.made[owner] == 0 {
			delete(o.made, owner)
		}
	}
	*c = change{}
	o.unused = append(o.unused, c)
}

func (o *outstanding) slot() *change {
	if n := len(o.unused); n > 0 {
		c := o.unused[n-1]
		o.unused = o.unused[:n-1]
		return c
	}
	return &change{}
}

// drop forgets the changes up to zxid.
func (o *outstanding) drop(zxid zk.Zxid) {
	for o.head < len(o.queue) && o.queue[o.head].zxid <= zxid {
		c := o.queue[o.head]
		o.queue[o.head] = nil
		o.head++
		if c.current {
			delete(o.byPath, c.path)
		}
		if c.ends != 0 {
			delete(o.ended, c.ends)
		}
		o.release(c, true)
	}
	if o.head == len(o.queue) {
		o.queue, o.head = o.queue[:0], 0
	} else if o.head > 4096 && o.head > len(o.queue)/2 {
		n := copy(o.queue, o.queue[o.head:])
		clear(o.queue[n:])
		o.queue, o.head = o.queue[:n], 0
	}
}

// mark and rollback undo what a multi has decided so far.
func (o *outstanding) mark() int { return len(o.queue) - o.head }

func (o *outstanding) rollback(mark int) {
	for len(o.queue)-o.head > mark {
		last := len(o.queue) - 1
		c := o.queue[last]
		o.queue[last] = nil
		o.queue = o.queue[:last]
		if c.before != nil {
			o.byPath[c.path] = c.before
			c.before.current = true
		} else {
			delete(o.byPath, c.path)
		}
		o.release(c, false)
	}
}

// look fills in a znode as it will be, from the outstanding changes, else from the tree, and
// reports whether it will exist. It records nothing. The next change of the path starts from
// the result.
func (p *Prep) look(path string, c *change) bool {
	if path == "" {
		path = zk.RootPath
	}
	if out, ok := p.outstanding.byPath[path]; ok {
		*c = *out
		c.before = out
		return c.exists
	}
	n, ok := p.tree.Find(path)
	if ok {
		fromTree(path, n, c)
		ok = !p.hasEnded(c.stat.EphemeralOwner)
	}
	if !ok {
		*c = change{path: path}
	}
	return ok
}

// hasEnded reports whether the end of the owner's session is decided, which deletes its znodes.
func (p *Prep) hasEnded(owner int64) bool {
	if len(p.outstanding.ended) == 0 || zk.KindOfOwner(owner, p.tree.Extended()) != zk.OwnerSession {
		return false
	}
	_, ok := p.outstanding.ended[owner]
	return ok
}

// Changing reports whether a change of a znode is decided but not applied.
func (p *Prep) Changing(path string) bool {
	_, ok := p.outstanding.byPath[path]
	return ok
}

func fromTree(path string, n tree.Node, c *change) {
	*c = change{
		path: path, exists: true, stat: n.Persisted(), children: int32(n.NumChildren()), dataLen: int32(n.DataBytes()),
		acl: n.ACL(), node: n, at: n.Place(),
	}
}

// change records what a znode will be, and updates the digest (prep-D3). old is the
// znode before, as look filled it in; a znode that does not exist adds nothing to
// the digest.
func (p *Prep) change(old, c *change, zxid zk.Zxid) {
	c.zxid, c.made, c.before, c.sum = zxid, 0, old.before, 0
	if c.exists && !old.exists && c.stat.EphemeralOwner != 0 {
		c.made = tree.EphemeralCost(c.path)
	}
	if c.exists && !c.summed { // the data stay what they are
		c.bodySum, c.summed = old.body(&p.scratch), true
	}
	c.node = tree.Node{}
	c.sum = c.checksum(&p.scratch)
	p.digest += c.sum - old.checksum(&p.scratch)
	p.outstanding.record(c)
}

// checksum returns a znode's part of the digest. For a directory in which many znodes are
// created, the change before has already computed the body sum.
func (c *change) checksum(b *tree.Scratch) uint64 {
	if !c.exists || c.sum != 0 {
		return c.sum
	}
	return tree.Checksum(c.path, c.body(b), &c.stat, b)
}

// body returns the sum of path and data. For a leaf in the tree it is computed on demand.
func (c *change) body(b *tree.Scratch) uint32 {
	if !c.summed {
		c.bodySum, c.summed = c.node.BodySum(c.path, b), true
	}
	return c.bodySum
}

// ephemeralBytes returns roughly how many bytes the ephemerals of a session will take.
// Those that it deletes count until the deletion is applied.
func (p *Prep) ephemeralBytes(session zk.SessionID) int64 {
	return p.tree.EphemeralBytes(session) + p.outstanding.made[int64(session)]
}

// ephemerals returns the paths a session will own once all outstanding changes
// are applied, sorted.
func (p *Prep) ephemerals(session zk.SessionID) []string {
	var paths []string
	if !p.hasEnded(int64(session)) {
		paths = p.tree.Ephemerals(session, "")
	}
	if p.outstanding.size() == 0 {
		return paths
	}
	paths = slices.DeleteFunc(paths, func(path string) bool {
		c, ok := p.outstanding.byPath[path]
		return ok && (!c.exists || c.stat.EphemeralOwner != int64(session))
	})
	for _, c := range p.outstanding.byOwner[int64(session)] {
		if c.current && c.exists {
			paths = append(paths, c.path)
		}
	}
	slices.SortFunc(paths, strings.Compare)
	return slices.Compact(paths)
}
