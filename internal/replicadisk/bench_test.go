package replicadisk

import (
	"fmt"
	"testing"

	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// BenchmarkRecover is a start from a snapshot of many znodes with 100 bytes each, per znode:
// what is read is checked, and the tree with its index and digest is made of it.
func BenchmarkRecover(b *testing.B) {
	const directories, each = 100, 2000
	mem := vfs.NewMem()
	must(b, mem.MkdirAll("data"))
	opts := options()
	opts.Ensemble = false
	opts.Store.Beside = func(f func()) { go f() }
	fill := tree.New(tree.Options{})
	var applied tree.Applied
	zxid := zk.Zxid(0)
	create := func(path string) {
		zxid++
		fill.Apply(&zk.TxnHeader{Zxid: zxid, Time: 1}, &zk.Txn{Op: zk.OpCreate, Path: path, Data: make([]byte, 100), ACL: zk.OpenACL(), ParentCversion: int32(zxid)}, &applied)
	}
	for i := range directories {
		create(fmt.Sprintf("/d%04d", i))
		for j := range each {
			create(fmt.Sprintf("/d%04d/n%06d", i, j))
		}
	}
	d, err := Open(mem, opts)
	must(b, err)
	_, err = d.Recover()
	must(b, err)
	_, err = Begin(fill, nil).Save(d.Store(), nil)
	must(b, err)
	must(b, d.Close())
	b.ReportAllocs()
	for b.Loop() {
		d, err := Open(mem, opts)
		must(b, err)
		found, err := d.Recover()
		must(b, err)
		if n := found.State.Tree().Count(); n < directories*each {
			b.Fatalf("%d znodes", n)
		}
		must(b, d.Close())
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*directories*each), "ns/znode")
}
