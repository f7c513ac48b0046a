package backup

import (
	"bytes"
	"slices"
	"strings"

	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/zk"
)

// Difference is a znode in which two trees differ. It exists in at least one of them.
type Difference struct {
	Path          string
	Before, After *Znode // nil: it does not exist
	Data, ACL     bool   // whether data or ACL differ
	Made          bool   // both exist, but were created by different transactions
	Stat          bool   // only numbers differ: versions or times
}

// Znode is a znode as a tree has it. It may be kept.
type Znode struct {
	Data []byte
	ACL  []zk.ACL
	Stat zk.StatPersisted
}

// Find returns a znode of a tree; nil if it does not exist. No other goroutine may use the
// tree.
func Find(t *tree.Tree, path string) *Znode {
	n, ok := t.Find(path)
	if !ok {
		return nil
	}
	acl := n.ACL()
	return &Znode{Data: n.Data(), ACL: acl.Entries(), Stat: n.Persisted()}
}

// Walk calls visit with the paths of a znode and of all znodes below it, parents first and
// siblings in the order of their names. It does nothing if there is no such znode.
func Walk(t *tree.Tree, path string, visit func(path string)) {
	n, ok := t.Find(path)
	if !ok {
		return
	}
	visit(path)
	names := n.Children(nil)
	slices.Sort(names)
	for _, name := range names {
		Walk(t, zk.JoinPath(path, name), visit)
	}
}

// Compare returns the znodes at and below a path in which two trees differ, by path. No other
// goroutine may use the trees.
func Compare(before, after *tree.Tree, path string) []Difference {
	var found []Difference
	Walk(before, path, func(p string) {
		if d, differs := compare(p, Find(before, p), Find(after, p)); differs {
			found = append(found, d)
		}
	})
	Walk(after, path, func(p string) {
		if _, there := before.Find(p); !there {
			found = append(found, Difference{Path: p, After: Find(after, p)})
		}
	})
	slices.SortFunc(found, func(a, b Difference) int { return strings.Compare(a.Path, b.Path) })
	return found
}

func compare(path string, a, b *Znode) (d Difference, differs bool) {
	d = Difference{Path: path, Before: a, After: b}
	if b == nil {
		return d, true
	}
	d.Data = !bytes.Equal(a.Data, b.Data) || (a.Data == nil) != (b.Data == nil)
	d.ACL = !slices.Equal(a.ACL, b.ACL)
	d.Made = a.Stat.Czxid != b.Stat.Czxid
	d.Stat = !d.Data && !d.ACL && !d.Made && a.Stat != b.Stat
	return d, d.Data || d.ACL || d.Made || d.Stat
}
