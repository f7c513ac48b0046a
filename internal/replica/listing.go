package replica

import (
	"math"
	"strings"

	"github.com/conclave-project/conclave/internal/jute"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/internal/watch"
	"github.com/conclave-project/conclave/zk"
)

// Listing is a list of many children that is read in portions: the tree is free between two of
// them, so that nobody waits for the whole list. It is good if the children have not changed from
// the first portion to the end, which shows in the znode's pzxid, or in how many they are: after 2^31
// changes of the children no new one raises the pzxid.
type Listing struct {
	Names []byte // as they stand in a reply, one after the other
	Count int

	of    listed
	after string   // the last one
	part  []string // of the tree
}

// listed is what makes a list of children another one.
type listed struct {
	czxid, pzxid zk.Zxid
	children     int
	replaced     int
}

// listingPart is how many names are read while the tree is kept from transactions: some tenths
// of a millisecond.
const listingPart = 1000

// List reads the next portion; more says that there are others. It is not ok if the list is not
// good any more, or is none that the caller may have. The tree is locked for reading.
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
	l.after = strings.Clone(l.part[len(l.part)-1]) // the tree may free it
	return more, true
}

// Listed answers req with a list that was read to its end, all but its names, and sets the watch
// that is asked for; false if the list is not good any more. The tree is locked for reading.
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
