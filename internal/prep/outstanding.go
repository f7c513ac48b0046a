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
	node     tree.Node // that this was filled in from, for bodySum; of nothing once this is recorded
	bodySum  uint32
	summed   bool // bodySum is known: always, of a znode that is recorded
	exists   bool
	current  bool    // no later change of the path
	sum      uint64  // its part of the digest, 0 if that is not known
	before   *change // what path was when this change was decided, nil if as in the tree
	ends     int64   // in place of a path, the owner whose znodes go with its session
	at       tree.Place
	made     int64 // bytes of the path, if this makes a znode that goes with a session
}

// outstanding are the changes that are decided but not applied, in order, by path the
// last one of each, and by owner those of its znodes, in order: many sessions may end at
// once, and none must go through the changes of all. What a session that ends owns in the
// tree has no change each: it may own millions.
type outstanding struct {
	queue   []*change // from head on
	head    int
	byPath  map[string]*change
	byOwner map[int64][]*change
	made    map[int64]int64    // bytes of the paths that are made, by owner
	ended   map[int64]struct{} // owners whose znodes in the tree are no more, but for those in byPath
	unused  []*change
}

func newOutstanding() outstanding {
	return outstanding{byPath: map[string]*change{}, byOwner: map[int64][]*change{}, made: map[int64]int64{}, ended: map[int64]struct{}{}}
}

func (o *outstanding) size() int { return len(o.queue) - o.head }

// record takes a slot for a change of path and makes it the path's last one. before is the last
// one until now.
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

// release takes a change back that is not in the queue any more: the first of its owner's
// if it was the first, or the last.
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
// reports whether it will exist. It does not record anything. What it fills in is what a next
// change of the path begins with.
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

// hasEnded reports whether a znode of the owner goes with a session whose end is decided.
func (p *Prep) hasEnded(owner int64) bool {
	if len(p.outstanding.ended) == 0 || zk.KindOfOwner(owner, p.tree.Extended()) != zk.OwnerSession {
		return false
	}
	_, ok := p.outstanding.ended[owner]
	return ok
}

// Changing reports whether a change of a znode is decided and not applied.
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

// change records what a znode will be, and moves the digest along (prep-D3). old is
// what it was, as look has filled it in; not existing counts as nothing.
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

// checksum is a znode's part of the digest. A directory in which many are created has been summed
// by the change before.
func (c *change) checksum(b *tree.Scratch) uint64 {
	if !c.exists || c.sum != 0 {
		return c.sum
	}
	return tree.Checksum(c.path, c.body(b), &c.stat, b)
}

// body is the sum of path and data. That of a leaf in the tree is computed when it is asked for.
func (c *change) body(b *tree.Scratch) uint32 {
	if !c.summed {
		c.bodySum, c.summed = c.node.BodySum(c.path, b), true
	}
	return c.bodySum
}

// ephemeralBytes returns about what the ephemerals cost that a session will own: those
// that it deletes count until they are gone.
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
