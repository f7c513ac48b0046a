package replicadisk

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/internal/txnlog"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// BenchmarkRecover is a start from a snapshot of many znodes with 100 bytes each, per znode:
// the input is verified, and the tree with its index and digest is built from it.
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

// BenchmarkReplay replays sets of znodes at random places of a tree of a million, with and
// without announcing them to the tree.
func BenchmarkReplay(b *testing.B) {
	const znodes, ahead = 1 << 20, tree.FetchMax
	target := NewTarget(Options{})
	last := zk.Zxid(0)
	record := func(t zk.Txn) txnlog.Record {
		last++
		return txnlog.Record{Zxid: last, Payload: txn.Append(nil, &zk.TxnHeader{Zxid: last, Op: t.Op}, &t, zk.Digest{})}
	}
	replay := func(r *txnlog.Record) {
		if err := target.Replay(r.Zxid, r.Payload); err != nil {
			b.Fatal(err)
		}
	}
	data := make([]byte, 100)
	create := func(path string) {
		r := record(zk.Txn{Op: zk.OpCreate, Path: path, Data: data, ACL: zk.OpenACL(), ParentCversion: -1})
		replay(&r)
	}
	create("/a")
	for i := range znodes {
		create(fmt.Sprint("/a/node-", i))
	}
	random := rand.New(rand.NewPCG(1, 2))
	records := make([]txnlog.Record, 1<<18)
	for i := range records {
		records[i] = record(zk.Txn{Op: zk.OpSetData, Path: fmt.Sprint("/a/node-", random.IntN(znodes)), Data: data, Version: 1})
	}
	for _, told := range []bool{false, true} {
		b.Run(fmt.Sprint(told), func(b *testing.B) {
			at := 0
			for b.Loop() {
				some := records[at : at+ahead]
				at = (at + ahead) % len(records)
				if told {
					target.Ahead(some)
				}
				for i := range some {
					replay(&some[i])
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*ahead), "ns/record")
		})
	}
}
