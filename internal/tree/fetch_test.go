package tree

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/zk"
)

// Whatever paths there are, Fetch bears them, changes nothing and takes no memory.
func TestFetchChangesNothing(t *testing.T) {
	w := newWorld(1)
	long := "/" + strings.Repeat("n", 300)
	paths := []string{"", "/", "//", "a", "/a", "/a/", "/a/b", "/a/b/c", "/a//b", "/none", "/none/x", long, long + "/b", zk.ConfigPath}
	for _, path := range []string{"/a", "/a/b", long, long + "/b"} {
		w.apply(1, zk.Txn{Op: zk.OpCreate, Path: path, Data: make([]byte, 1<<17), ACL: zk.OpenACL(), ParentCversion: -1})
		if w.out.Result.Code != zk.OK {
			t.Fatal(w.out.Result.Code)
		}
	}
	before, digest := dump(w.tree), w.tree.Digest()
	if got := testing.AllocsPerRun(10, func() { w.tree.Fetch(paths) }); got != 0 {
		t.Errorf("%v allocations", got)
	}
	for len(paths) < FetchMax {
		paths = append(paths, paths[len(paths)%9])
	}
	w.tree.Fetch(nil)
	w.tree.Fetch(paths)
	if !maps.Equal(before, dump(w.tree)) || w.tree.Digest() != digest {
		t.Error("the tree has changed")
	}
}

// BenchmarkFetch finds znodes at random places of a large tree, with and without Fetch.
func BenchmarkFetch(b *testing.B) {
	tree := New(Options{})
	var out Applied
	paths := make([]string, 1<<20)
	tree.Apply(&zk.TxnHeader{Zxid: 1}, &zk.Txn{Op: zk.OpCreate, Path: "/a", ACL: zk.OpenACL(), ParentCversion: 1}, &out)
	for i := range paths {
		paths[i] = fmt.Sprintf("/a/node-%d", i)
		tree.Apply(&zk.TxnHeader{Zxid: zk.Zxid(i + 2)}, &zk.Txn{
			Op: zk.OpCreate, Path: paths[i], Data: make([]byte, 100), ACL: zk.OpenACL(), ParentCversion: int32(i + 1),
		}, &out)
	}
	random := rand.New(rand.NewPCG(1, 2))
	random.Shuffle(len(paths), func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
	for _, fetch := range []bool{false, true} {
		b.Run(fmt.Sprint(fetch), func(b *testing.B) {
			at := 0
			for b.Loop() {
				if at++; at == len(paths)/FetchMax {
					at = 1
				}
				some := paths[at*FetchMax-FetchMax : at*FetchMax]
				if fetch {
					tree.Fetch(some)
				}
				for _, path := range some {
					if n, ok := tree.Find(path); !ok || len(n.Data()) != 100 {
						b.Fatal("it is not there")
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*FetchMax), "ns/find")
		})
	}
}
