package replica

import (
	"math"
	"strings"

	"github.com/conclave-project/conclave/internal/jute"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/internal/watch"
	"github.com/conclave-project/conclave/zk"
)

// Listing is a list of many children that is read in portions. The tree is unlocked between two
// portions, so nobody waits for the whole list. The list is valid if the children have not
// changed between the first portion and the end. A change shows in the pzxid of the znode, or
// in the number of children, because after 2^31 changes of the children no new change raises
// the pzxid.
type Listing struct {
	Names []byte // as in a reply, one after another
	Count int

	of    listed
	after string   // the last name read
	part  []string // the last portion, in memory of the tree
}

// listed identifies a list of children: if any of it changes, it is another list.
type listed struct {
	czxid, pzxid zk.Zxid
	children     int
	replaced     int
}

// listingPart is how many names are read while transactions are kept out of the tree: some
// tenths of a millisecond.
const listingPart = 1000

// List reads the next portion; more reports whether others follow. ok is false if the list is
// no longer valid, or if the caller may not have it. The tree is locked for reading.
func (v *Reader) List(req *zk.Request, who Caller, l *Listing) (more, ok bool) {
	n, code := v.readable(req, who)
	if code != zk.OK || l.Count > 0 && l.of != v.listed(n) {
		return false, false
	}
	if l.Count == 0 {
		l.of = v.listed(n)
		l.Names = make([]byte, 0, int(n.NamesBytes())+4*n.NumChildren())
	}
	if l.part, more, ok = n.ChildrenAfter(l.after, l.part[:0], listingPart, math.MaxInt); len(l.part) == 0 {
		return false, ok
	}
	for _, name := range l.part {
		l.Names = jute.AppendString(l.Names, name)
	}
	l.Count += len(l.part)
	l.after = strings.Clone(l.part[len(l.part)-1]) // copied, because the tree may free it
	return more, true
}

// Listed answers req with a list that was read to its end, except for the names themselves, and
// sets the watch if req asks for one; false if the list is no longer valid. The tree is locked
// for reading.
func (v *Reader) Listed(req *zk.Request, who Caller, l *Listing, a *Answer) bool {
	n, code := v.readable(req, who)
	if code != zk.OK || l.of != v.listed(n) {
		return false
	}
	*a = Answer{Result: zk.Result{Op: req.Op, Stat: n.Stat(), Children: a.Result.Children[:0]}, Events: a.Events[:0]}
	if req.Watch && !v.Watches.Add(who.Conn, watch.Child, req.Path) {
		a.Code = zk.ErrThrottledOp
	}
	return true
}

func (v *Reader) listed(n tree.Node) listed {
	stat := n.Persisted()
	return listed{stat.Czxid, stat.Pzxid, n.NumChildren(), v.Tree.Replaced()}
}
