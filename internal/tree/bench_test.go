package tree

import (
	"fmt"
	"runtime"
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

// A server applies each write to its tree, and looks up what is read.
func TestSetDataAndFindAllocateNothing(t *testing.T) {
	tree := New(Options{})
	var out Applied
	zxid := zk.Zxid(1)
	tree.Apply(&zk.TxnHeader{Zxid: zxid}, &zk.Txn{Op: zk.OpCreate, Path: "/a", Data: make([]byte, 100), ACL: zk.OpenACL(), ParentCversion: 1}, &out)
	set := zk.Txn{Op: zk.OpSetData, Path: "/a", Data: make([]byte, 100)}
	head := zk.TxnHeader{}
	if got := testing.AllocsPerRun(100, func() {
		zxid++
		head.Zxid = zxid
		tree.Apply(&head, &set, &out)
	}); got != 0 || out.Result.Code != zk.OK {
		t.Errorf("%v allocations of a set, %v", got, out.Result.Code)
	}
	if got := testing.AllocsPerRun(100, func() { tree.Find("/a") }); got != 0 {
		t.Errorf("%v allocations of a find", got)
	}
}

// BenchmarkZnode measures the memory that a znode with 100 bytes of data takes on a server.
func BenchmarkZnode(b *testing.B) {
	const parents, each = 100, 1000
	acl, data := zk.OpenACL(), make([]byte, 100)
	var bytes uint64
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		tree := New(Options{})
		var out Applied
		zxid := zk.Zxid(0)
		create := func(path string, n int) {
			zxid++
			tree.Apply(&zk.TxnHeader{Zxid: zxid}, &zk.Txn{Op: zk.OpCreate, Path: path, Data: data, ACL: acl, ParentCversion: int32(n)}, &out)
		}
		for parent := range parents {
			create(fmt.Sprintf("/p%03d", parent), parent)
			for n := range each {
				create(fmt.Sprintf("/p%03d/n%04d", parent, n), n)
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		bytes += after.HeapAlloc - before.HeapAlloc
		runtime.KeepAlive(tree)
	}
	b.ReportMetric(float64(bytes)/float64(b.N*parents*(each+1)), "B/znode")
}

// BenchmarkScan is what a snapshot costs the tree, per znode of 100 bytes.
func BenchmarkScan(b *testing.B) {
	const directories, each = 100, 2000
	tree := New(Options{})
	var out Applied
	zxid := zk.Zxid(0)
	create := func(path string) {
		zxid++
		tree.Apply(&zk.TxnHeader{Zxid: zxid, Time: 1}, &zk.Txn{Op: zk.OpCreate, Path: path, Data: make([]byte, 100), ACL: zk.OpenACL(), ParentCversion: -1}, &out)
	}
	for i := range directories {
		create(fmt.Sprintf("/d%04d", i))
		for j := range each {
			create(fmt.Sprintf("/d%04d/n%06d", i, j))
		}
	}
	text := make([]byte, 0, 1<<10)
	b.ReportAllocs()
	for b.Loop() {
		s, n := tree.NewScan(), 0
		var e Entry
		for {
			var more bool
			if text, more = s.Next(&e, text[:0]); !more {
				break
			}
			n++
		}
		s.End()
		if n < directories*each {
			b.Fatal(n)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*directories*each), "ns/znode")
}
