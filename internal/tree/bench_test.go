package tree

import (
	"fmt"
	"testing"

	"github.com/conclave-project/conclave/zk"
)

// BenchmarkSetData writes data that keep their length, and data that grow and shrink, four
// znodes deep.
func BenchmarkSetData(b *testing.B) {
	for _, lengths := range [][2]int{{100, 100}, {100, 90}, {100, 200}} {
		b.Run(fmt.Sprintf("%d-%d", lengths[0], lengths[1]), func(b *testing.B) {
			tree := New(Options{})
			var out Applied
			acl, zxid := zk.OpenACL(), zk.Zxid(0)
			apply := func(txn zk.Txn) {
				zxid++
				tree.Apply(&zk.TxnHeader{Zxid: zxid}, &txn, &out)
			}
			for _, path := range []string{"/a", "/a/b", "/a/b/c"} {
				apply(zk.Txn{Op: zk.OpCreate, Path: path, ACL: acl, ParentCversion: 1})
			}
			paths := make([]string, 1<<16)
			for i := range paths {
				paths[i] = fmt.Sprintf("/a/b/c/node-%d", i)
				apply(zk.Txn{Op: zk.OpCreate, Path: paths[i], Data: make([]byte, lengths[0]), ACL: acl, ParentCversion: int32(i)})
			}
			data := [2][]byte{make([]byte, lengths[1]), make([]byte, lengths[0])}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				apply(zk.Txn{Op: zk.OpSetData, Path: paths[i&(len(paths)-1)], Data: data[i>>16&1]})
				i++
			}
		})
	}
}
