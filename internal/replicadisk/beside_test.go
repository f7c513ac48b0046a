package replicadisk

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/conclave-project/conclave/internal/snap"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/internal/txnlog"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// A tree that is loaded by two goroutines equals the one that a single goroutine loads: with
// directories of all depths, paths and numbers of lists that occur twice, and lists that are
// missing.
func TestTreeLoadedBesideIsTheSame(t *testing.T) {
	const nodes = 12_000
	for seed := range uint64(3) {
		r := rand.New(rand.NewPCG(seed, 1))
		disk := vfs.NewMem()
		must(t, disk.MkdirAll("d"))
		w, err := snap.Create(disk, "d", 9, snap.Plain)
		must(t, err)
		_ = w.Begin(0, 40)
		for range 40 {
			_ = w.ACL(int64(r.IntN(35)+1), []zk.ACL{{Perms: zk.Perms(r.IntN(31) + 1), Identity: zk.Identity{Scheme: "digest", ID: fmt.Sprint(r.IntN(30))}}})
		}
		dirs := []string{""}
		for i := range nodes {
			dir := dirs[len(dirs)-1]
			if r.IntN(20) == 0 {
				dir = dirs[r.IntN(len(dirs))]
			}
			path := fmt.Sprintf("%s/n%d", dir, i)
			if r.IntN(40) == 0 && i > 0 {
				path = fmt.Sprintf("%s/n%d", dir, i-1) // perhaps again
			}
			data := bytes.Repeat([]byte{byte(i)}, r.IntN(200))
			if r.IntN(2000) == 0 {
				data = make([]byte, 300_000)
			}
			must(t, w.Node(path, data, int64(r.IntN(45))-1, &zk.StatPersisted{Czxid: zk.Zxid(i), Version: int32(i)}))
			if r.IntN(100) == 0 && len(path) < 200 {
				dirs = append(dirs, path)
			}
		}
		must(t, w.End(9, zk.Digest{}, 9))
		must(t, w.Commit())
		files, err := snap.Files(disk, "d")
		must(t, err)
		load := func(o snap.Options) *tree.Tree {
			target := NewTarget(Options{})
			info, err := snap.LoadFile(disk, "d", files[0], o, target)
			must(t, err)
			target.Loaded(files[0], info)
			return target.Tree()
		}
		ran := 0
		alone, beside := load(snap.Options{}), load(snap.Options{Beside: func(f func()) { ran++; go f() }})
		if ran != 1 || alone.Count() < nodes/2 || alone.Count() != beside.Count() || alone.Digest() != beside.Digest() {
			t.Errorf("seed %d: %d znodes, %v, and %d znodes, %v, beside (%d)", seed, alone.Count(), alone.Digest(), beside.Count(), beside.Digest(), ran)
		}
		compareTrees(t, alone, beside)
	}
}

// compareTrees compares all znodes of two trees, with their lists.
func compareTrees(t *testing.T, a, b *tree.Tree) {
	t.Helper()
	x, y := a.NewScan(), b.NewScan()
	defer x.End()
	defer y.End()
	for {
		var e, f tree.Entry
		_, more := x.Next(&e, nil)
		if _, ok := y.Next(&f, nil); ok != more || !more {
			if ok != more {
				t.Error("one tree has more")
			}
			return
		}
		m, _ := a.Find(e.Path)
		n, _ := b.Find(f.Path)
		if e.Path != f.Path || !bytes.Equal(e.Data, f.Data) || e.Stat != f.Stat || fmt.Sprint(m.ACL().Entries()) != fmt.Sprint(n.ACL().Entries()) {
			t.Fatalf("%s %v, and %s %v", e.Path, e.Stat, f.Path, f.Stat)
		}
	}
}

// A replay fetches ahead for as many transactions as the tree takes at a time, and keeps none of them.
func TestReplayFetchesAhead(t *testing.T) {
	target := NewTarget(Options{})
	var next []txnlog.Record
	for i := range zk.Zxid(tree.FetchMax + 8) {
		x := zk.Txn{Op: zk.OpDelete, Path: fmt.Sprint("/", i)}
		next = append(next, txnlog.Record{Zxid: i, Payload: txn.Append(nil, &zk.TxnHeader{Zxid: i, Op: x.Op}, &x, zk.Digest{})})
	}
	for _, want := range []int{tree.FetchMax, 8} {
		before := target.fetcher.Total()
		n := target.Ahead(next)
		if got := target.fetcher.Total() - before; n != want || got != want {
			t.Errorf("%d told, %d noted, for %d fetched", len(next), n, got)
		}
		next = next[n:]
	}
}
