package tree

import (
	"testing"

	"github.com/conclave-project/conclave/zk"
)

// The sum that is kept of a directory belongs to its own tree: not to the tree that another one
// replaces, and not to the znode that had its record before.
func TestSumOfADirectoryIsThatOfItsTree(t *testing.T) {
	create := func(path string) zk.Txn {
		return zk.Txn{Op: zk.OpCreate, Path: path, ACL: zk.OpenACL(), ParentCversion: -1}
	}
	check := func(what string, t2 *Tree) {
		t.Helper()
		if t2.Digest().Value != sum(t2) {
			t.Errorf("%s: the digest is %x, the znodes sum to %x", what, t2.Digest().Value, sum(t2))
		}
	}
	old, other := newWorld(1), newWorld(1)
	for _, path := range []string{"/d", "/d/a", "/d/b"} {
		old.apply(1, create(path))
	}
	for _, path := range []string{"/e", "/d", "/d/a"} {
		other.apply(1, create(path))
	}
	old.tree.Become(other.tree)
	old.apply(1, create("/e/c")) // /e has the number that /d had
	check("below another directory", old.tree)
	old.apply(1, create("/d/c"))
	check("below one of that name", old.tree)
	for _, path := range []string{"/d/a", "/d/c", "/d"} {
		old.apply(1, zk.Txn{Op: zk.OpDelete, Path: path})
	}
	old.apply(1, create("/f")) // has the record of /d
	old.apply(1, create("/f/a"))
	check("in a record that is used again", old.tree)
}
