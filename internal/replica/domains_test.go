package replica

import (
	"slices"
	"testing"

	"github.com/conclave-project/conclave/internal/auth"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/zk"
)

// A map of domains stays as it was when it was read, and so do the identities that it yields,
// whatever happens to its znodes: connections hold both without a lock.
func TestDomainsAreNeverChanged(t *testing.T) {
	for _, op := range []zk.Op{zk.OpSetData, zk.OpSetACL, zk.OpCreate, zk.OpDelete} {
		tr := tree.New(tree.Options{})
		var out tree.Applied
		zxid := zk.Zxid(0)
		apply := func(txn zk.Txn) {
			zxid++
			tr.Apply(&zk.TxnHeader{Zxid: zxid, Op: txn.Op, Time: 5}, &txn, &out)
			if out.Result.Code != zk.OK {
				t.Fatal(out.Result.Code)
			}
		}
		for _, path := range []string{auth.MapPath, auth.MapPath + "/alpha", auth.MapPath + "/alpha/client"} {
			apply(zk.Txn{Op: zk.OpCreate, Path: path, ACL: zk.OpenACL(), ParentCversion: -1})
		}
		rules := &auth.Rules{SkipACL: true}
		d := domainsOf(&Reader{Tree: tr, Auth: rules})
		proved, _ := rules.Grouped("client", d.Of["client"])
		for _, path := range []string{auth.MapPath + "/alpha/client", auth.MapPath + "/alpha"} {
			txn := zk.Txn{Op: op, Path: path, ACL: zk.ReadACL(), Version: 1}
			if op == zk.OpCreate {
				txn.Path, txn.ParentCversion = path+"/x", -1
			}
			apply(txn)
		}
		for _, path := range []string{"b", "c", "d", "e"} { // into the blocks that are free now
			apply(zk.Txn{Op: zk.OpCreate, Path: "/zookeeper/admin" + path, ACL: zk.OpenACL(), ParentCversion: -1})
		}
		if got := d.Of["client"]; !slices.Equal(got, []string{"alpha"}) || proved[0].ID != "alpha" {
			t.Errorf("%v: the map changed to %q, the identity to %q", op, d.Of, proved)
		}
	}
}
