package tree

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/zk"
)

// Fetch accepts any paths, changes nothing and takes no memory.
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
	var f Fetcher
	fetch := func() {
		for _, path := range paths {
			f.Add(path)
		}
		f.Fetch(w.tree)
	}
	if got := testing.AllocsPerRun(10, fetch); got != 0 {
		t.Errorf("%v allocations", got)
	}
	if !maps.Equal(before, dump(w.tree)) || w.tree.Digest() != digest {
		t.Error("the tree has changed")
	}
}

// Fetch touches the places, the records and the blocks of the paths, as the sum shows: with
// directories that change from one path to the next, some of which do not exist.
func TestFetchTouchesWhatALookNeeds(t *testing.T) {
	w := newWorld(1)
	create := func(path string) {
		w.apply(1, zk.Txn{Op: zk.OpCreate, Path: path, ACL: zk.OpenACL(), ParentCversion: -1})
	}
	create("/a")
	create("/b")
	for i := range 3000 {
		create(fmt.Sprint("/a/", i))
		create(fmt.Sprint("/b/name-", i))
		create(fmt.Sprint("/", i))
	}
	random := rand.New(rand.NewPCG(1, 3))
	for range 100 {
		var paths []string
		want := uint64(0)
		for range FetchMax {
			directory := []string{"/a/", "/b/name-", "/", "/none/", "/a/none/"}[random.IntN(5)]
			path := fmt.Sprint(directory, random.IntN(4000))
			paths = append(paths, path)
			parentPath, name := zk.SplitPath(path)
			parent, ok := w.tree.find(parentPath)
			if !ok {
				continue
			}
			hash := []uint64{w.tree.index.Hash(parent, name)}
			want += w.tree.index.Touch(hash)
			for _, id := range w.tree.index.Likely(hash, nil) {
				want += uint64(len(w.tree.name(w.tree.nodes.At(id))))
			}
		}
		if got := w.tree.fetch(paths); got != want {
			t.Fatalf("%q: %x, not %x", paths, got, want)
		}
	}
}

// A Fetcher keeps no path that it has fetched for, and skips what exceeds its limit.
func TestAFetcherForgets(t *testing.T) {
	w := newWorld(1)
	var f Fetcher
	add := func(n int, path string) {
		for range n {
			f.Add(path)
		}
	}
	total := 0
	for _, c := range []struct{ paths, fetched int }{{0, 0}, {fetchLeast - 1, 0}, {fetchLeast, fetchLeast}, {FetchMax + 5, FetchMax}, {1, 0}} {
		add(5, "")
		add(5, "/"+strings.Repeat("n", fetchPathBytes))
		add(c.paths, "/"+strings.Repeat("n", fetchPathBytes-1))
		f.Fetch(w.tree)
		if total += c.fetched; f.Total() != total || f.n != 0 || f.paths != [FetchMax]string{} {
			t.Errorf("%d paths: %d in all, not %d; it keeps %q", c.paths, f.Total(), total, f.paths)
		}
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
			var f Fetcher
			at := 0
			for b.Loop() {
				if at++; at == len(paths)/FetchMax {
					at = 1
				}
				some := paths[at*FetchMax-FetchMax : at*FetchMax]
				if fetch {
					for _, path := range some {
						f.Add(path)
					}
					f.Fetch(tree)
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
