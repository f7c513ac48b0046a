package tree

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/conclave-project/conclave/internal/compact"
	"github.com/conclave-project/conclave/zk"
)

// statModel is the stat that znodes should have, by what ZooKeeper says of each operation.
type statModel map[string]*zk.StatPersisted

func newStatModel(t *Tree) statModel {
	m := statModel{}
	for _, path := range []string{"/", zk.SystemPath, zk.QuotaPath, zk.ConfigPath} {
		n, _ := t.Find(path)
		s := n.Persisted()
		m[path] = &s
	}
	return m
}

func (m statModel) apply(h *zk.TxnHeader, txn *zk.Txn) {
	parent, _ := zk.SplitPath(txn.Path)
	switch {
	case txn.Op.IsCreate():
		m[txn.Path] = &zk.StatPersisted{
			Czxid: h.Zxid, Mzxid: h.Zxid, Pzxid: h.Zxid, Ctime: h.Time, Mtime: h.Time, EphemeralOwner: storedOwner(h, txn),
		}
		m[parent].Cversion, m[parent].Pzxid = txn.ParentCversion, h.Zxid
	case txn.Op == zk.OpSetData:
		s := m[txn.Path]
		s.Mzxid, s.Mtime, s.Version = h.Zxid, h.Time, txn.Version
	case txn.Op == zk.OpSetACL:
		m[txn.Path].Aversion = txn.Version
	case txn.Op == zk.OpDelete:
		delete(m, txn.Path)
		m[parent].Pzxid = h.Zxid
	case txn.Op == zk.OpCloseSession:
		for _, path := range txn.Paths {
			m.apply(h, &zk.Txn{Op: zk.OpDelete, Path: path})
		}
	}
}

func (m statModel) compare(t *testing.T, tree *Tree) {
	t.Helper()
	if tree.Count() != len(m) {
		t.Fatalf("%d znodes, the model has %d", tree.Count(), len(m))
	}
	for _, path := range slices.Sorted(maps.Keys(m)) {
		n, ok := tree.Find(path)
		if !ok || n.Persisted() != *m[path] {
			t.Fatalf("%.20s... (%d bytes) has %+v, the model has %+v", path, len(path), n.Persisted(), *m[path])
		}
		if kept, sum := n.BodySum(path, new(Scratch)), BodySum(path, n.Data(), new(Scratch)); kept != sum {
			t.Fatalf("%.20s... (%d bytes) has the sum %x, and is said to have %x", path, len(path), sum, kept)
		}
	}
}

// A znode has the stat that its operations have given it, whatever part was needed first
// (children, a write, a list or an owner), and whatever block it has moved to.
func TestStatEqualsItsModel(t *testing.T) {
	for seed := range uint64(10) {
		w := newWorld(seed)
		m := newStatModel(w.tree)
		for step := range 4000 {
			last := len(w.log)
			if w.step(); w.random.IntN(40) == 0 {
				w.remake()
			}
			for _, l := range w.log[last:] {
				m.apply(&l.h, &l.t)
			}
			if step%200 == 0 {
				m.compare(t, w.tree)
			}
		}
		// A snapshot of the tree has the same stats, and moves each znode to a block of its
		// own.
		loaded := New(Options{})
		l := loaded.Load()
		w.tree.ACLs(l.ACL)
		s := w.tree.NewScan()
		var e Entry
		for next(s, &e) {
			if err := l.Node(e.Path, e.Data, e.ACL, e.Stat); err != nil {
				t.Fatal(err)
			}
		}
		s.End()
		l.Finish(w.tree.LastZxid())
		m.compare(t, loaded)
		if loaded.Digest() != w.tree.Digest() {
			t.Fatal("the digests differ")
		}
	}
}

// What is stored in front of the name comes in any order, with names and data of every length
// near the edges of blocks. Nothing else in the znode and in its neighbors changes.
func TestWhatIsInFrontOfANameMovesIt(t *testing.T) {
	orders := [][]string{{"write", "child"}, {"child", "write"}, {"write"}, {"child"}, {"acl", "write", "child"}, {"write", "acl"}}
	w := newWorld(1)
	m := newStatModel(w.tree)
	data := map[string]string{}
	apply := func(txn zk.Txn) {
		w.apply(1, txn)
		last := &w.log[len(w.log)-1]
		m.apply(&last.h, &last.t)
		if w.out.Result.Code != zk.OK {
			t.Fatal(txn.Op, w.out.Result.Code)
		}
	}
	create := func(path, parent string, bytes int) {
		data[path] = strings.Repeat(path[1:2], bytes)
		apply(zk.Txn{Op: zk.OpCreate, Path: path, Data: []byte(data[path]), ACL: zk.OpenACL(), ParentCversion: m[parent].Cversion + 1})
	}
	var paths []string
	for i, order := range orders {
		for bytes := range 40 {
			path := "/" + strings.Repeat(string(rune('a'+i)), 1+bytes*7)
			create(path, "/", bytes)
			paths = append(paths, path)
			for _, what := range order {
				switch what {
				case "write":
					data[path] = strings.Repeat("w", bytes)
					apply(zk.Txn{Op: zk.OpSetData, Path: path, Data: []byte(data[path]), Version: 1})
				case "child":
					create(path+"/c", path, 3)
				case "acl":
					apply(zk.Txn{Op: zk.OpSetACL, Path: path, ACL: zk.ReadACL(), Version: 1})
				}
			}
		}
	}
	m.compare(t, w.tree)
	for path, want := range data {
		if n, _ := w.tree.Find(path); string(n.Data()) != want {
			t.Fatalf("%.20s... has %q, want %q", path, n.Data(), want)
		}
	}
	if w.tree.Digest().Value != sum(w.tree) {
		t.Error("the digest differs")
	}
	for _, path := range paths {
		if _, below := data[path+"/c"]; below {
			apply(zk.Txn{Op: zk.OpDelete, Path: path + "/c"})
		}
		apply(zk.Txn{Op: zk.OpDelete, Path: path})
	}
	if w.tree.Count() != 4 || w.tree.rests.Len() != 3 {
		t.Errorf("%d znodes and %d rests are left", w.tree.Count(), w.tree.rests.Len())
	}
}

// Each part of a stat is kept by itself, even if the others are those of a new znode.
func TestEachPartOfAStatIsKept(t *testing.T) {
	fresh := zk.StatPersisted{Czxid: 7, Mzxid: 7, Pzxid: 7, Ctime: 1000, Mtime: 1000}
	for i, change := range []func(*zk.StatPersisted){
		func(*zk.StatPersisted) {},
		func(s *zk.StatPersisted) { s.Mzxid = 8 },
		func(s *zk.StatPersisted) { s.Mtime = 1001 },
		func(s *zk.StatPersisted) { s.Version = 1 },
		func(s *zk.StatPersisted) { s.Pzxid = 8 },
		func(s *zk.StatPersisted) { s.Cversion = 1 },
		func(s *zk.StatPersisted) { s.Aversion = 1 },
		func(s *zk.StatPersisted) { s.EphemeralOwner = 1 },
		func(s *zk.StatPersisted) { s.Czxid, s.Ctime = 5, 900 },
	} {
		first, second := fresh, fresh
		change(&second)
		for _, stats := range [][]zk.StatPersisted{{second}, {first, second}, {second, first}} {
			l := New(Options{}).Load()
			var data []byte
			for _, s := range stats {
				data = append(data, "data"...)
				if err := l.Node("/n", data, -1, s); err != nil {
					t.Fatal(err)
				}
			}
			l.Finish(9)
			n, _ := l.t.Find("/n")
			if last := stats[len(stats)-1]; n.Persisted() != last || n.BodySum("/n", new(Scratch)) != BodySum("/n", data, new(Scratch)) || l.t.Digest().Value != sum(l.t) {
				t.Errorf("change %d: %+v, want %+v", i, n.Persisted(), last)
			}
		}
	}
}

// A znode that occurs twice in a snapshot belongs to the owner that it has the second time.
func TestAnOwnerIsReplaced(t *testing.T) {
	owners := []int64{0, 7, 8, zk.ContainerOwner, zk.TTLOwner(500)}
	for _, first := range owners {
		for _, second := range owners {
			l := New(Options{ExtendedTypes: true}).Load()
			for _, owner := range []int64{first, second} {
				s := zk.StatPersisted{Czxid: 7, Mzxid: 7, Pzxid: 7, EphemeralOwner: owner}
				if err := l.Node("/n", nil, -1, s); err != nil {
					t.Fatal(err)
				}
			}
			l.Finish(9)
			reaps, sessions := 0, map[zk.SessionID]int{}
			switch zk.KindOfOwner(second, true) {
			case zk.OwnerSession:
				sessions[zk.SessionID(second)] = 1
			case zk.OwnerContainer, zk.OwnerTTL:
				reaps = 1
			}
			if l.t.Reaps() != reaps || l.t.EphemeralCount() != len(sessions) {
				t.Errorf("%x, then %x: %d to reap, %d ephemerals", first, second, l.t.Reaps(), l.t.EphemeralCount())
			}
			for _, owner := range []zk.SessionID{7, 8} {
				if got := len(l.t.Ephemerals(owner, "")); got != sessions[owner] {
					t.Errorf("%x, then %x: session %x has %d", first, second, owner, got)
				}
			}
		}
	}
}

// The content of the last directory of a snapshot counts for its quotas.
func TestTheLastDirectoryOfASnapshotCounts(t *testing.T) {
	l := New(Options{}).Load()
	s := zk.StatPersisted{Czxid: 1, Mzxid: 1, Pzxid: 1}
	for _, n := range [][2]string{
		{"/zookeeper/quota/a", ""}, {"/zookeeper/quota/a/zookeeper_limits", "count=5,bytes=5"},
		{"/zookeeper/quota/a/zookeeper_stats", "x"}, {"/a", "1"}, {"/a/b", "22"}, {"/a/b/c", "333"}, {"/a/b/d", "4444"},
	} {
		if err := l.Node(n[0], []byte(n[1]), -1, s); err != nil {
			t.Fatal(err)
		}
	}
	l.Finish(2)
	if n, _ := l.t.Find("/zookeeper/quota/a/zookeeper_stats"); string(n.Data()) != "count=4,bytes=10" {
		t.Errorf("%q", n.Data())
	}
}

func TestLongNamesLeaveNothing(t *testing.T) {
	tree := New(Options{})
	var out Applied
	name := strings.Repeat("n", 50_000)
	for i := range 3 * compact.SpareBytes / len(name) {
		path := "/" + name[i%700:]
		tree.Apply(&zk.TxnHeader{Zxid: zk.Zxid(2*i + 1)}, &zk.Txn{Op: zk.OpCreate, Path: path, ACL: zk.OpenACL(), ParentCversion: -1}, &out)
		tree.Apply(&zk.TxnHeader{Zxid: zk.Zxid(2*i + 2)}, &zk.Txn{Op: zk.OpDelete, Path: path}, &out)
	}
	if held := tree.blocks.Held(); held > compact.SpareBytes/8 {
		t.Errorf("%d bytes are held", held)
	}
}

func TestStatOfTheConfig(t *testing.T) {
	tree := New(Options{})
	tree.PutConfig([]byte("server.1=a"), 0x100000007, 99)
	n, _ := tree.Find(zk.ConfigPath)
	if s := n.Stat(); s.Mzxid != 0x100000007 || s.Mtime != 99 || s.Version != -1 || s.DataLength != 10 || s.Czxid != 0 {
		t.Errorf("%+v", s)
	}
}

// A block that a znode has left is free.
func TestAMoveLeavesNothingBehind(t *testing.T) {
	tree := New(Options{})
	var out Applied
	zxid := zk.Zxid(0)
	apply := func(txn zk.Txn) {
		zxid++
		if tree.Apply(&zk.TxnHeader{Zxid: zxid}, &txn, &out); out.Result.Code != zk.OK {
			t.Fatal(out.Result.Code)
		}
	}
	data := make([]byte, 56<<10-2) // with the name a block is full
	for range 3 * compact.SpareBytes / len(data) {
		apply(zk.Txn{Op: zk.OpCreate, Path: "/n", Data: data, ACL: zk.OpenACL(), ParentCversion: -1})
		apply(zk.Txn{Op: zk.OpSetData, Path: "/n", Data: data, Version: 1})
		apply(zk.Txn{Op: zk.OpSetACL, Path: "/n", ACL: zk.ReadACL(), Version: 1})
		apply(zk.Txn{Op: zk.OpDelete, Path: "/n"})
	}
	if held := tree.blocks.Held(); held > compact.SpareBytes/8 {
		t.Errorf("%d bytes are held", held)
	}
}

// Size and ctime are what they were set to, in the record or outside it, whichever comes first.
// The other parts and what is stored behind them stay.
func TestSizesAndTimes(t *testing.T) {
	sizes := []int{-1, 0, 1, 100, narrowMax - 1, narrowMax, narrowMax + 1, DataMax}
	times := []int64{0, 1, -1, 1<<47 - 1, 1 << 47, -1 << 47, -1<<47 - 1, math.MaxInt64, math.MinInt64, 1_790_000_000_000}
	for _, flags := range []head{0, withRest, withWrite, withRest | withWrite} {
		for _, first := range sizes {
			for _, second := range sizes {
				for i, ctime := range times {
					before := times[(i+3)%len(times)]
					if got, want := fits(second, ctime), second <= narrowMax && ctime < 1<<47 && ctime >= -1<<47; got != want {
						t.Fatalf("%d bytes, %d: fits %v", second, ctime, got)
					}
					if !fits(second, ctime) || !fits(first, before) {
						continue
					}
					h := flags | narrow(first, before)
					if size, time := h.size(), h.ctime(); size != first || time != before || h.bytes() != flags.bytes() {
						t.Fatalf("%d bytes, %d: %d, %d", first, before, size, time)
					}
				}
			}
		}
	}
	tree := New(Options{})
	for _, first := range sizes[:7] {
		for _, second := range sizes[:7] {
			for i, ctime := range times {
				name := fmt.Sprintf("n%d", i)
				data := func(size int) []byte {
					if size < 0 {
						return nil
					}
					return bytes.Repeat([]byte{byte(size)}, size)
				}
				s := zk.StatPersisted{Ctime: times[(i+3)%len(times)], Mtime: 5, Czxid: 7, Mzxid: 8, Pzxid: 9}
				id := tree.insertUnder(rootNode, "/"+name, name, tree.index.Hash(rootNode, name), data(first), BodySum("/"+name, data(first), &tree.scratch), openACL, &s)
				n := tree.nodes.At(id)
				if tree.size(n) != first || tree.stat(n) != s {
					t.Fatalf("%d bytes, %+v; want %d, %+v", tree.size(n), tree.stat(n), first, s)
				}
				s.Ctime = ctime
				tree.setData(n, data(second))
				tree.setStat(n, &s)
				if got := tree.data(n); tree.size(n) != second || tree.stat(n) != s || !bytes.Equal(got, data(second)) || (got == nil) != (second < 0) {
					t.Fatalf("%d bytes, %+v; want %d, %+v", tree.size(n), tree.stat(n), second, s)
				}
				if tree.name(n) != name {
					t.Fatalf("%q", tree.name(n))
				}
				tree.countBelow(n, 1)
				tree.remove(id, "/"+name)
			}
		}
	}
	if tree.Count() != 4 {
		t.Errorf("%d znodes", tree.Count())
	}
	defer func() {
		if recover() == nil {
			t.Error("more than DataMax was accepted")
		}
	}()
	id, _ := tree.find(zk.ConfigPath)
	tree.setSizeAndTime(tree.nodes.At(id), DataMax+1, 0)
}

// The checksum of large data is computed when the data come, not again when they go or the stat
// changes: a small request may affect many large data. The same holds for a znode that was
// written, or has a rest.
func TestSumOfTheBodyIsKept(t *testing.T) {
	for _, size := range []int{0, narrowMax, narrowMax + 1, 1 << 20} {
		for _, written := range []bool{false, true} {
			for _, what := range []zk.Txn{
				{Op: zk.OpError},
				{Op: zk.OpSetACL, Path: "/a", ACL: zk.ReadACL(), Version: 1},
				{Op: zk.OpCreate, Path: "/a/b", ACL: zk.OpenACL(), ParentCversion: 1},
			} {
				w, data := newWorld(1), make([]byte, size)
				w.apply(1, zk.Txn{Op: zk.OpCreate, Path: "/a", Data: data, ACL: zk.OpenACL(), ParentCversion: 1})
				if written {
					w.apply(1, zk.Txn{Op: zk.OpSetData, Path: "/a", Data: data, Version: 1})
				}
				w.apply(1, what)
				id, _ := w.tree.find("/a")
				n := w.tree.nodes.At(id)
				if kept := n.head&summed != 0; kept != (size > narrowMax || written || what.Op != zk.OpError) {
					t.Errorf("%d bytes, written %v, %s: kept %v", size, written, what.Op, kept)
				}
				if got, want := w.tree.sumOf(n, "/a", &w.tree.scratch), BodySum("/a", data, &w.tree.scratch); got != want {
					t.Errorf("%d bytes, written %v, %s: %x, not %x", size, written, what.Op, got, want)
				}
			}
		}
	}
}

// A fuzzy snapshot may show a znode twice.
func TestSumOfTheBodyIsKeptOfASnapshot(t *testing.T) {
	tree := New(Options{})
	l := tree.Load()
	for i := range 2 {
		data := bytes.Repeat([]byte{byte(i)}, narrowMax+1)
		if err := l.Node("/a", data, -1, zk.StatPersisted{Czxid: 1, Mzxid: 1, Pzxid: 1}); err != nil {
			t.Fatal(err)
		}
		id, _ := tree.find("/a")
		n := tree.nodes.At(id)
		if want := BodySum("/a", data, &tree.scratch); n.head&summed == 0 || tree.sumOf(n, "/a", &tree.scratch) != want {
			t.Errorf("shown %d times: flags %x, %x, not %x", i+1, n.head&flags>>timeBits, tree.sumOf(n, "/a", &tree.scratch), want)
		}
	}
}

// A part that is added in front of a name moves the checksum.
func TestSumOfTheBodyHasItsPlace(t *testing.T) {
	for _, first := range []head{0, withRest, withWide, withWrite} {
		for _, then := range []head{withRest, withWide, withWrite} {
			w := newWorld(1)
			w.apply(1, zk.Txn{Op: zk.OpCreate, Path: "/a", Data: []byte("data"), ACL: zk.OpenACL(), ParentCversion: 1})
			id, _ := w.tree.find("/a")
			n := w.tree.nodes.At(id)
			add := func(part head) {
				switch part {
				case withRest:
					w.tree.needRest(n)
				case withWide:
					w.tree.setSizeAndTime(n, w.tree.size(n), 1<<timeBits)
				case withWrite:
					w.tree.setWritten(n, 1000, 1, 1)
				}
			}
			want := BodySum("/a", []byte("data"), &w.tree.scratch)
			add(first)
			w.tree.keepSum(n, want)
			add(then)
			if got := w.tree.sumOf(n, "/a", &w.tree.scratch); got != want {
				t.Errorf("%x, then %x: %x, not %x", first>>timeBits, then>>timeBits, got, want)
			}
			if kept := n.head&summed != 0; kept != (first != 0 && (then == first || then == withRest)) {
				t.Errorf("%x, then %x: kept %v", first>>timeBits, then>>timeBits, kept)
			}
		}
	}
}

// A server uses most of its memory for a million znodes and more.
func TestSizeOfAZnode(t *testing.T) {
	if got := unsafe.Sizeof(znode{}); got != 32 {
		t.Errorf("a znode has %d bytes", got)
	}
}
