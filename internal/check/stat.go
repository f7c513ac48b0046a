package check

import (
	"sort"

	"github.com/conclave-project/conclave/zk"
)

// family is the numbers of a znode that other znodes' transactions change, or that a leader
// has chosen. All servers have what the leader has decided, so no digest shows an error in
// them.
type family struct {
	created, changed int     // children created, and children created or deleted, during the znode's life
	pzxid            zk.Zxid // of the last such change
	ctimeMs, mtimeMs int64
}

// numbersWhen returns the numbers of a znode in a state at a zxid; false for the znodes of
// every new tree.
func (t *timeline) numbersWhen(s *state, zxid zk.Zxid) (n family, known bool) {
	n = family{pzxid: s.czxid, ctimeMs: s.ctimeMs, mtimeMs: s.timeMs}
	upTo := sort.Search(len(t.children), func(i int) bool { return t.children[i].zxid > zxid })
	if n.changed = upTo - s.before; n.changed > 0 {
		n.pzxid = t.children[upTo-1].zxid
	}
	count, _ := t.childrenWhen(zxid)
	n.created = (n.changed + count) / 2
	return n, s.czxid > 0
}

// inAnswer compares the numbers with those of an answer.
func (n *family) inAnswer(path string, zxid zk.Zxid, got *zk.Stat) error {
	if int(got.Cversion) != n.changed || got.Pzxid != n.pzxid || got.Ctime != n.ctimeMs || got.Mtime != n.mtimeMs {
		return broken(propertyRead, "%s at %s: %d changes of children, the last by %s, made at %d ms, set at %d ms; should be %d, %s, %d, %d",
			path, number(zxid), got.Cversion, number(got.Pzxid), got.Ctime, got.Mtime, n.changed, number(n.pzxid), n.ctimeMs, n.mtimeMs)
	}
	return nil
}

// inTree compares the numbers with those that a server has stored.
func (n *family) inTree(path string, got *zk.StatPersisted) error {
	if int(got.Cversion) != n.created || got.Pzxid != n.pzxid || got.Ctime != n.ctimeMs || got.Mtime != n.mtimeMs {
		return broken(propertyModel, "a server has %s with %d children created, the last change by %s, made at %d ms, set at %d ms; should be %d, %s, %d, %d",
			path, got.Cversion, number(got.Pzxid), got.Ctime, got.Mtime, n.created, number(n.pzxid), n.ctimeMs, n.mtimeMs)
	}
	return nil
}
