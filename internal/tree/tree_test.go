package tree

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/compact"
	"github.com/conclave-project/conclave/zk"
)

func TestDigestOfAFreshTreeIsZooKeepers(t *testing.T) {
	tree := New(Options{})
	if got := tree.Digest().Value; got != 0x51c6d660 {
		t.Fatalf("digest %#x, want 0x51c6d660", got)
	}
	if tree.Count() != 4 || tree.TextBytes() != 44 {
		t.Fatalf("count %d, text %d: want 4 and 44", tree.Count(), tree.TextBytes())
	}
}

// world makes random transactions as a server would decide them, so that each fits the tree on
// which it was decided.
type world struct {
	random *rand.Rand
	tree   *Tree
	zxid   zk.Zxid
	out    Applied
	log    []logged
}

type logged struct {
	h zk.TxnHeader
	t zk.Txn
}

func newWorld(seed uint64) *world {
	return &world{random: rand.New(rand.NewPCG(seed, 1)), tree: New(Options{ExtendedTypes: true})}
}

func (w *world) randomPath() string {
	parts := make([]string, 1+w.random.IntN(3))
	for i := range parts {
		parts[i] = fmt.Sprintf("n%d", w.random.IntN(6))
	}
	return "/" + strings.Join(parts, "/")
}

func (w *world) data() []byte {
	switch w.random.IntN(8) {
	case 0:
		return nil
	case 1:
		return []byte{}
	case 2:
		return bytes.Repeat([]byte("L"), w.random.IntN(200_000))
	}
	return bytes.Repeat([]byte("d"), w.random.IntN(300))
}

func (w *world) acl() []zk.ACL {
	if w.random.IntN(3) > 0 {
		return zk.OpenACL()
	}
	return []zk.ACL{{Perms: zk.Perms(w.random.IntN(32)), Identity: zk.Identity{Scheme: "digest", ID: "u:h="}}}
}

// step decides and applies one random transaction.
func (w *world) step() {
	path := w.randomPath()
	parent, _ := zk.SplitPath(path)
	node, exists := w.tree.Find(path)
	up, hasParent := w.tree.Find(parent)
	if hasParent && up.Stat().EphemeralOwner != 0 {
		hasParent = false
	}
	txn := zk.Txn{Op: zk.OpError, Code: zk.ErrNoNode}
	session := zk.SessionID(1 + w.random.IntN(3))
	switch k := w.random.IntN(10); {
	case !exists && hasParent:
		txn = zk.Txn{Op: zk.OpCreate, Path: path, Data: w.data(), ACL: w.acl(), ParentCversion: up.Persisted().Cversion + 1}
		switch k {
		case 0:
			txn.Op = zk.OpCreateContainer
		case 1:
			txn.Op, txn.TTL = zk.OpCreateTTL, 1000
		case 2, 3:
			txn.Ephemeral = true
		}
	case exists && k < 4 && node.NumChildren() == 0:
		txn = zk.Txn{Op: zk.OpDelete, Path: path}
	case exists && k < 8:
		txn = zk.Txn{Op: zk.OpSetData, Path: path, Data: w.data(), Version: node.Persisted().Version + 1}
	case exists:
		txn = zk.Txn{Op: zk.OpSetACL, Path: path, ACL: w.acl(), Version: node.Persisted().Aversion + 1}
	case k == 0:
		txn = zk.Txn{Op: zk.OpCloseSession, HasPaths: true, Paths: w.tree.Ephemerals(session, "")}
	}
	w.apply(session, txn)
}

func (w *world) apply(session zk.SessionID, txn zk.Txn) {
	w.zxid++
	h := zk.TxnHeader{Session: session, Zxid: w.zxid, Time: int64(1000 + w.zxid), Op: txn.Op}
	w.tree.Apply(&h, &txn, &w.out)
	w.log = append(w.log, logged{h, txn})
	if n, ok := w.tree.Find(txn.Path); ok && !strings.HasSuffix(txn.Path, "/"+statsName) && w.out.Result.Code == zk.OK && (txn.Op.IsCreate() || txn.Op == zk.OpSetData || txn.Op == zk.OpSetACL) {
		if w.out.Result.Stat != n.Stat() {
			panic(fmt.Sprintf("%v of %.40q tells %+v, and the tree has %+v", txn.Op, txn.Path, w.out.Result.Stat, n.Stat()))
		}
	}
	if plain != (rest{}) {
		panic(fmt.Sprintf("%v of %.40q has written into what all znodes without a rest share", txn.Op, txn.Path))
	}
}

// remake deletes a directory with everything below it, the deepest first, and creates it again
// with other data and another child, as successive programs do with their working directory.
func (w *world) remake() {
	path := fmt.Sprintf("/n%d", w.random.IntN(6))
	up, _ := w.tree.Find("/")
	if top, exists := w.tree.Find(path); exists {
		if top.Stat().EphemeralOwner != 0 {
			return
		}
		var below []string
		s := w.tree.NewScan()
		var e Entry
		for next(s, &e) {
			if strings.HasPrefix(e.Path, path+"/") || e.Path == path {
				below = append(below, e.Path)
			}
		}
		s.End()
		slices.Reverse(below)
		w.apply(1, zk.Txn{Op: zk.OpSetData, Path: path, Data: w.data(), Version: top.Persisted().Version + 1})
		for _, p := range below {
			w.apply(1, zk.Txn{Op: zk.OpDelete, Path: p})
		}
	}
	create := func(p string, parent Node, ephemeral bool) {
		w.apply(1, zk.Txn{Op: zk.OpCreate, Path: p, Data: w.data(), ACL: w.acl(), Ephemeral: ephemeral,
			ParentCversion: parent.Persisted().Cversion + 1})
	}
	create(path, up, false)
	for range w.random.IntN(3) {
		child := fmt.Sprintf("%s/n%d", path, w.random.IntN(6))
		top, _ := w.tree.Find(path)
		if _, exists := w.tree.Find(child); !exists {
			create(child, top, w.random.IntN(4) == 0)
		}
	}
}

// dump is everything a tree says about itself, by path.
func dump(t *Tree) map[string]string {
	all := map[string]string{}
	s := t.NewScan()
	defer s.End()
	var e Entry
	for next(s, &e) {
		n, ok := t.Find(e.Path)
		if !ok {
			panic("scan shows " + e.Path + " that is not there")
		}
		names := n.Children(nil)
		slices.Sort(names)
		all[e.Path] = fmt.Sprintf("%v %x %v %v %v %d", e.Data == nil, e.Data, n.Stat(), n.ACL().Entries(), names, n.Descendants())
	}
	return all
}

// sum computes the digest from scratch.
func sum(t *Tree) uint64 {
	s := t.NewScan()
	defer s.End()
	var total uint64
	var e Entry
	for next(s, &e) {
		total += Checksum(e.Path, BodySum(e.Path, e.Data, new(Scratch)), &e.Stat, new(Scratch))
	}
	return total
}

func TestTreeEqualsItsNaiveModel(t *testing.T) {
	w := newWorld(1)
	model := map[string][]byte{"/": {}, "/zookeeper": {}, "/zookeeper/quota": {}, "/zookeeper/config": {}}
	for i := range 20000 {
		w.step()
		last := w.log[len(w.log)-1]
		for _, p := range last.t.Paths {
			delete(model, p)
		}
		switch {
		case last.t.Op.IsCreate() || last.t.Op == zk.OpSetData:
			model[last.t.Path] = last.t.Data
		case last.t.Op == zk.OpDelete:
			delete(model, last.t.Path)
		}
		if i%500 != 0 {
			continue
		}
		if w.tree.Count() != len(model) {
			t.Fatalf("step %d: %d znodes, model has %d", i, w.tree.Count(), len(model))
		}
		text, below := int64(1), map[string]int{}
		for path := range model {
			for path != "/" {
				path, _ = zk.SplitPath(path)
				below[path]++
			}
		}
		for path, data := range model {
			n, ok := w.tree.Find(path)
			if !ok || !bytes.Equal(n.Data(), data) || (n.Data() == nil) != (data == nil) {
				t.Fatalf("step %d: %s differs", i, path)
			}
			if n.Descendants() != below[path] {
				t.Fatalf("step %d: %d znodes below %s, model has %d", i, n.Descendants(), path, below[path])
			}
			if path != "/" {
				text += int64(len(path) + len(data))
			}
		}
		if w.tree.TextBytes() != text {
			t.Fatalf("step %d: text %d, model %d", i, w.tree.TextBytes(), text)
		}
		if w.tree.Digest().Value != sum(w.tree) {
			t.Fatalf("step %d: running digest differs from the sum", i)
		}
	}
}

// A snapshot taken while transactions go on, and the log from its start, give the tree that the
// transactions gave (tree-N2).
func TestFuzzySnapshotAndReplayGiveTheSameTree(t *testing.T) {
	for seed := range uint64(60) {
		w := newWorld(seed)
		for range 100 + w.random.IntN(300) {
			w.step()
		}
		start := w.zxid
		acls := map[int64][]zk.ACL{}
		w.tree.ACLs(func(id int64, entries []zk.ACL) { acls[id] = entries })
		s := w.tree.NewScan()
		type saved struct {
			Entry
			null bool
		}
		var snapshot []saved
		var e Entry
		for next(s, &e) {
			e.Data, snapshot = bytes.Clone(e.Data), append(snapshot, saved{e, e.Data == nil})
			for range w.random.IntN(6) {
				if w.random.IntN(40) == 0 { // rarely: the next one hides what the last one broke
					w.remake()
				} else {
					w.step()
				}
			}
		}
		s.End()
		loaded := New(Options{ExtendedTypes: true})
		l := loaded.Load()
		for id, entries := range acls {
			l.ACL(id, entries)
		}
		for _, e := range snapshot {
			if e.null {
				e.Data = nil
			}
			if err := l.Node(e.Path, e.Data, e.Entry.ACL, e.Stat); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		l.Finish(start)
		var out Applied
		for _, entry := range w.log[start:] {
			loaded.Apply(&entry.h, &entry.t, &out)
		}
		if loaded.Digest() != w.tree.Digest() {
			t.Fatalf("seed %d: digests differ", seed)
		}
		if a, b := dump(w.tree), dump(loaded); !maps.Equal(a, b) {
			for path := range a {
				if a[path] != b[path] {
					t.Errorf("seed %d: %s\n was %.200s\n got %.200s", seed, path, a[path], b[path])
				}
			}
			t.Fatalf("seed %d: trees differ", seed)
		}
	}
}

// A directory is changed, deleted and created again with another child before a snapshot under
// way shows it: the log has the change of the first one, the snapshot has the second one with
// its child.
func TestReplayDeletesADirectoryThatHasLaterChildren(t *testing.T) {
	w := newWorld(1)
	create := func(path, data string, cversion int32) {
		w.apply(1, zk.Txn{Op: zk.OpCreate, Path: path, Data: []byte(data), ACL: zk.OpenACL(), ParentCversion: cversion})
	}
	create("/a", "first", 1)
	scan := w.tree.NewScan() // of zxid 1
	create("/a/b", "", 1)
	create("/a/c", "", 2)
	w.apply(1, zk.Txn{Op: zk.OpSetData, Path: "/a", Data: []byte("changed"), Version: 1})
	for _, path := range []string{"/a/b", "/a/c", "/a"} {
		w.apply(1, zk.Txn{Op: zk.OpDelete, Path: path})
	}
	create("/a", "second", 2)
	create("/a/e", "", 1)
	create("/a/e/f", "", 1)

	loaded := New(Options{ExtendedTypes: true})
	l := loaded.Load()
	w.tree.ACLs(func(id int64, entries []zk.ACL) { l.ACL(id, entries) })
	for e := (Entry{}); next(scan, &e); {
		if err := l.Node(e.Path, e.Data, e.ACL, e.Stat); err != nil {
			t.Fatal(err)
		}
	}
	scan.End()
	l.Finish(1)
	for _, entry := range w.log[1:] {
		loaded.Apply(&entry.h, &entry.t, &Applied{})
	}
	if a, b := dump(w.tree), dump(loaded); !maps.Equal(a, b) {
		t.Errorf("trees differ:\n was %v\n got %v", a, b)
	}
	if loaded.Digest() != w.tree.Digest() || loaded.Digest().Value != sum(loaded) {
		t.Error("digests differ")
	}
}

// A place that another znode has taken, or that belongs to a tree that was replaced, is not
// used.
func TestAPlaceIsThatOfOneZnodeAlone(t *testing.T) {
	w := newWorld(1)
	set := func(path string, at Place) zk.Code {
		w.zxid++
		h := zk.TxnHeader{Zxid: w.zxid, Op: zk.OpSetData}
		w.tree.ApplyKnown(&h, &zk.Txn{Op: zk.OpSetData, Path: path, Data: []byte(path)}, &Known{At: at}, &w.out)
		return w.out.Result.Code
	}
	place := func(path string) Place {
		n, ok := w.tree.Find(path)
		if !ok {
			t.Fatalf("no %s", path)
		}
		return n.Place()
	}
	create := func(path string) zk.Txn {
		return zk.Txn{Op: zk.OpCreate, Path: path, ACL: zk.OpenACL(), ParentCversion: -1}
	}
	both := func(first, second string) zk.Txn {
		return zk.Txn{Op: zk.OpMulti, Sub: []zk.Txn{create(first), create(second)}}
	}
	w.apply(1, create("/d"))
	w.apply(1, create("/e"))
	w.apply(1, both("/d/x", "/e/x")) // same name, same zxid
	old := place("/d/x")
	if set("/d/x", old) != zk.OK || set("/e/x", place("/e/x")) != zk.OK {
		t.Fatal("not found")
	}
	w.apply(1, zk.Txn{Op: zk.OpDelete, Path: "/d/x"})
	if code := set("/d/x", old); code != zk.ErrNoNode {
		t.Errorf("a znode that was deleted is set: %v", code)
	}
	w.apply(1, create("/x")) // where /d/x was
	if p := place("/x"); p.id != old.id {
		t.Fatalf("it is at %d, not at %d", p.id, old.id)
	}
	if code := set("/d/x", old); code != zk.ErrNoNode {
		t.Errorf("another one is set: %v", code)
	}
	for _, path := range []string{"/", zk.ConfigPath} {
		if p := place(path); p != (Place{}) {
			t.Errorf("%s, which no transaction has created, is at %+v", path, p)
		}
	}

	// The same transactions in another order give the same place to another znode.
	at, zxid := place("/e/x"), w.zxid
	other := newWorld(1)
	other.apply(1, create("/d"))
	other.apply(1, create("/e"))
	other.apply(1, both("/e/x", "/d/x"))
	if n, _ := other.tree.Find("/d/x"); n.Place().id != at.id {
		t.Fatalf("/d/x is at %d, /e/x was at %d", n.Place().id, at.id)
	}
	w.tree.Become(other.tree)
	w.zxid = zxid
	if code := set("/e/x", at); code != zk.OK {
		t.Fatal(code)
	}
	for path, want := range map[string]string{"/e/x": "/e/x", "/d/x": ""} {
		if n, _ := w.tree.Find(path); string(n.Data()) != want {
			t.Errorf("%s has %q", path, n.Data())
		}
	}
}

func TestMultiAppliesAllOrNothing(t *testing.T) {
	w := newWorld(1)
	before := w.tree.Digest()
	w.apply(1, zk.Txn{Op: zk.OpMulti, Sub: []zk.Txn{
		{Op: zk.OpCreate, Path: "/a", ACL: zk.OpenACL(), ParentCversion: 1},
		{Op: zk.OpError, Code: zk.ErrBadVersion}, {Op: zk.OpError, Code: zk.ErrRuntimeInconsistency}}})
	if w.tree.Digest() != before || len(w.out.Changes) != 0 {
		t.Fatal("a failed multi changed the tree")
	}
	got := []zk.Code{}
	for _, r := range w.out.Result.Sub {
		got = append(got, r.Code)
	}
	if want := []zk.Code{0, zk.ErrBadVersion, zk.ErrRuntimeInconsistency}; !slices.Equal(got, want) {
		t.Fatalf("codes %v, want %v", got, want)
	}
	w.apply(1, zk.Txn{Op: zk.OpMulti, Sub: []zk.Txn{
		{Op: zk.OpCreate, Path: "/a", ACL: zk.OpenACL(), ParentCversion: 1},
		{Op: zk.OpCreate, Path: "/a/b", ACL: zk.OpenACL(), ParentCversion: 1},
		{Op: zk.OpDelete, Path: "/a/b"}}})
	if len(w.out.Changes) != 6 {
		t.Fatalf("%d changes, want 6", len(w.out.Changes))
	}
}

func TestStatShowsCreationsAndDeletions(t *testing.T) {
	w := newWorld(1)
	w.apply(1, zk.Txn{Op: zk.OpCreate, Path: "/p", ACL: zk.OpenACL(), ParentCversion: 1})
	for i := range int32(3) {
		w.apply(1, zk.Txn{Op: zk.OpCreate, Path: fmt.Sprintf("/p/%d", i), ACL: zk.OpenACL(), ParentCversion: i + 1})
	}
	w.apply(1, zk.Txn{Op: zk.OpDelete, Path: "/p/1"})
	w.apply(1, zk.Txn{Op: zk.OpCreate, Path: "/p/3", ACL: zk.OpenACL(), ParentCversion: 4})
	n, _ := w.tree.Find("/p")
	if s := n.Stat(); s.Cversion != 5 || s.NumChildren != 3 {
		t.Fatalf("cversion %d with %d children, want 5 and 3", s.Cversion, s.NumChildren)
	}
	root, _ := w.tree.Find("")
	if s := New(Options{}); func() int32 { n, _ := s.Find("/"); return n.Stat().Cversion }() != -1 || root.NumChildren() != 2 {
		t.Fatal("fresh root must show cversion -1")
	}
}

func TestQuotaUsageFollowsTheSubtree(t *testing.T) {
	w := newWorld(1)
	create := func(path, data string) {
		up, _ := w.tree.Find(zk.ParentPath(path))
		w.apply(1, zk.Txn{Op: zk.OpCreate, Path: path, Data: []byte(data), ACL: zk.OpenACL(), ParentCversion: up.Persisted().Cversion + 1})
	}
	create("/q", "12345")
	create("/q/a", "123")
	create("/zookeeper/quota/q", "")
	create("/zookeeper/quota/q/zookeeper_limits", "count=4,bytes=20=;byteHardLimit=30")
	create("/zookeeper/quota/q/zookeeper_stats", "count=0,bytes=0")
	create("/q/b", "1")
	if len(w.out.OverQuota) != 0 {
		t.Fatalf("within its quota, but noted: %v", w.out.OverQuota)
	}
	w.apply(1, zk.Txn{Op: zk.OpSetData, Path: "/q/b", Data: []byte("1234567890123"), Version: 1})
	if !slices.Equal(w.out.OverQuota, []string{"/q"}) {
		t.Fatalf("beyond the soft limit of 20 bytes, noted %v", w.out.OverQuota)
	}
	w.apply(1, zk.Txn{Op: zk.OpSetData, Path: "/q/b", Data: []byte("1234567"), Version: 2})
	w.apply(1, zk.Txn{Op: zk.OpDelete, Path: "/q/a"})
	limits, usage := w.tree.QuotaState("/q")
	if limits != (Limits{4, 20, -1, 30}) || usage != (Usage{2, 12}) {
		t.Fatalf("limits %+v, usage %+v", limits, usage)
	}
	n, _ := w.tree.Find("/zookeeper/quota/q/zookeeper_stats")
	if n.Stat().Version != 0 || string(n.Data()) != "count=2,bytes=12" {
		t.Fatalf("stats znode %q version %d", n.Data(), n.Stat().Version)
	}
	w.apply(1, zk.Txn{Op: zk.OpDelete, Path: "/zookeeper/quota/q/zookeeper_limits"})
	if _, ok := w.tree.QuotaOf("/q/b"); ok {
		t.Fatal("quota outlives its limits")
	}
}

// A multi that creates and deletes a usage znode again and again does not make the subtree be
// counted at all: it is applied on every server, and at each of their next starts.
func TestUsageIsNotCountedInATransaction(t *testing.T) {
	w := newWorld(1)
	w.apply(1, zk.Txn{Op: zk.OpCreate, Path: "/q", ACL: zk.OpenACL(), ParentCversion: 1})
	for i := range 20_000 {
		w.apply(1, zk.Txn{Op: zk.OpCreate, Path: fmt.Sprint("/q/", i), ACL: zk.OpenACL(), ParentCversion: int32(i + 1)})
	}
	w.apply(1, zk.Txn{Op: zk.OpCreate, Path: "/zookeeper/quota/q", ACL: zk.OpenACL(), ParentCversion: 1})
	const stats = "/zookeeper/quota/q/zookeeper_stats"
	var sub []zk.Txn
	for i := range 7000 {
		sub = append(sub, zk.Txn{Op: zk.OpCreate, Path: stats, ACL: zk.OpenACL(), ParentCversion: int32(2*i + 1)}, zk.Txn{Op: zk.OpDelete, Path: stats})
	}
	one, _ := w.tree.find("/q/7")
	w.tree.nodes.At(one).next = 1 << 31 // no such record: a walk of the children fails
	w.apply(1, zk.Txn{Op: zk.OpMulti, Sub: sub[:len(sub)-1]})
	if _, usage := w.tree.QuotaState("/q"); usage != (Usage{20_001, 0}) {
		t.Errorf("counted %+v", usage)
	}
	w.apply(1, zk.Txn{Op: zk.OpDelete, Path: stats})
}

func TestReapableNamesUnusedContainersAndExpiredTTLs(t *testing.T) {
	w := newWorld(1)
	for i, txn := range []zk.Txn{
		{Op: zk.OpCreateContainer, Path: "/used"}, {Op: zk.OpCreateContainer, Path: "/fresh"},
		{Op: zk.OpCreateContainer, Path: "/full"}, {Op: zk.OpCreateTTL, Path: "/ttl", TTL: 500},
		{Op: zk.OpCreateTTL, Path: "/long", TTL: 5_000_000},
	} {
		txn.ACL, txn.ParentCversion = zk.OpenACL(), int32(i)+1
		w.apply(1, txn)
	}
	w.apply(1, zk.Txn{Op: zk.OpCreate, Path: "/used/x", ACL: zk.OpenACL(), ParentCversion: 1})
	w.apply(1, zk.Txn{Op: zk.OpDelete, Path: "/used/x"})
	w.apply(1, zk.Txn{Op: zk.OpCreate, Path: "/full/x", ACL: zk.OpenACL(), ParentCversion: 1})
	if got, _ := w.tree.Reapable(w.tree.Reaps(), 2000, 0, 10, 1<<20); !slices.Equal(got, []string{"/ttl", "/used"}) {
		t.Fatalf("reapable %v", got)
	}
	if got, next := w.tree.Reapable(w.tree.Reaps(), 400_000, 300_000, 10, 1<<20); next != 0 || !slices.Equal(got, []string{"/fresh", "/ttl", "/used"}) {
		t.Fatalf("reapable later %v", got)
	}
	// The time of a TTL begins with each write.
	w.apply(1, zk.Txn{Op: zk.OpSetData, Path: "/ttl", Data: []byte("x"), Version: 1})
	n, _ := w.tree.Find("/ttl")
	for _, c := range []struct {
		at   int64
		want bool
	}{{n.Persisted().Mtime + 500, false}, {n.Persisted().Mtime + 501, true}} {
		got, _ := w.tree.Reapable(w.tree.Reaps(), c.at, 0, 10, 1<<20)
		if slices.Contains(got, "/ttl") != c.want {
			t.Errorf("reapable %d ms after a write: %v", c.at-n.Persisted().Mtime, got)
		}
	}
}

func TestLookupsOfImpossiblePathsFindNothing(t *testing.T) {
	tree := New(Options{})
	for _, path := range []string{"zookeeper", "//", "/zookeeper/", "//zookeeper", "/zookeeper//quota", "x"} {
		if _, ok := tree.Find(path); ok {
			t.Errorf("%q found", path)
		}
	}
}

func TestNamesOfEveryLengthAreKept(t *testing.T) {
	w := newWorld(1)
	// Three of the built-in znodes have a rest: the root, /zookeeper and its config.
	lengths := []int{1, 253, 254, 255, 256, 300, 5000, 70_000}
	for i, n := range lengths {
		path := "/" + strings.Repeat("n", n)
		w.apply(1, zk.Txn{Op: zk.OpCreate, Path: path, Data: []byte("first"), ACL: zk.OpenACL(), ParentCversion: int32(i) + 1})
		w.apply(1, zk.Txn{Op: zk.OpSetData, Path: path, Data: []byte("other"), Version: 1})
		w.apply(1, zk.Txn{Op: zk.OpSetData, Path: path, Data: bytes.Repeat([]byte("L"), 1000), Version: 2})
		node, ok := w.tree.Find(path)
		if !ok || len(node.Data()) != 1000 || w.tree.path(node.id) != path {
			t.Fatalf("name of %d bytes is not kept", n)
		}
	}
	if w.tree.Digest().Value != sum(w.tree) {
		t.Fatal("digest differs")
	}
	for _, n := range lengths {
		w.apply(1, zk.Txn{Op: zk.OpDelete, Path: "/" + strings.Repeat("n", n)})
	}
	if w.tree.Count() != 4 || w.tree.rests.Len() != 3 {
		t.Fatalf("%d znodes and %d rests are left", w.tree.Count(), w.tree.rests.Len())
	}
}

// No znode has had longer data than the bound says: not when it was created, nor when its data
// were replaced, in place or not, nor after another tree's content was taken over.
func TestLongestDataIsABound(t *testing.T) {
	w, other := newWorld(6), newWorld(7)
	other.apply(1, zk.Txn{Op: zk.OpCreate, Path: "/made", Data: make([]byte, 90_000), ACL: zk.OpenACL(), ParentCversion: 1})
	w.apply(1, zk.Txn{Op: zk.OpCreate, Path: "/n", Data: make([]byte, 100), ACL: zk.OpenACL(), ParentCversion: 1})
	for bytes := 100; bytes < 80_000; bytes += 1 + bytes/100 {
		if w.apply(1, zk.Txn{Op: zk.OpSetData, Path: "/n", Data: make([]byte, bytes)}); w.tree.LongestData() < bytes {
			t.Fatalf("data of %d bytes, and the bound is %d", bytes, w.tree.LongestData())
		}
	}
	w.apply(1, zk.Txn{Op: zk.OpCreate, Path: "/long", Data: make([]byte, 85_000), ACL: zk.OpenACL(), ParentCversion: 2})
	for _, bytes := range []int{10, 11, 500} {
		if w.apply(1, zk.Txn{Op: zk.OpSetData, Path: "/n", Data: make([]byte, bytes)}); w.tree.LongestData() < 85_000 {
			t.Fatalf("/long has 85000 bytes, and the bound is %d", w.tree.LongestData())
		}
	}
	if w.tree.Become(other.tree); w.tree.LongestData() < 90_000 {
		t.Errorf("data of 90000 bytes came with another tree, and the bound is %d", w.tree.LongestData())
	}
}

func TestIndexFindsWhatItHolds(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 5))
	w := newWorld(1)
	live := map[string]bool{}
	for i := range 60000 {
		path := fmt.Sprintf("/k%d", random.IntN(3000))
		if live[path] {
			w.apply(1, zk.Txn{Op: zk.OpDelete, Path: path})
		} else {
			w.apply(1, zk.Txn{Op: zk.OpCreate, Path: path, ACL: zk.OpenACL(), ParentCversion: int32(i) + 1})
		}
		live[path] = !live[path]
		if probe := fmt.Sprintf("/k%d", random.IntN(3000)); i%7 == 0 {
			if _, ok := w.tree.Find(probe); ok != live[probe] {
				t.Fatalf("step %d: %s found: %v", i, probe, ok)
			}
		}
	}
}

// Data that grow a little with each write need other blocks each time. They take no more than a
// few times their size, and nothing after they are gone.
func TestMemoryOfGrowingData(t *testing.T) {
	for _, shuffled := range []bool{false, true} {
		w := newWorld(1)
		const n = 3000
		create := func(path string) {
			w.apply(1, zk.Txn{Op: zk.OpCreate, Path: path, ACL: zk.OpenACL(), ParentCversion: 1})
		}
		create("/d")
		paths := make([]string, n)
		for i := range paths {
			paths[i] = fmt.Sprintf("/d/%05d", i)
			create(paths[i])
		}
		most := 0
		for size := 0; size <= 1200; size += 16 {
			if shuffled {
				w.random.Shuffle(n, func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
			}
			for _, path := range paths {
				w.apply(1, zk.Txn{Op: zk.OpSetData, Path: path, Data: make([]byte, size), Version: int32(size)})
			}
			w.log = w.log[:0]
			most = n * (size + 32)
			if held := w.tree.blocks.Held(); held > 3*most+compact.SpareBytes {
				t.Fatalf("shuffled %v: %d KB of data hold %d KB", shuffled, most>>10, held>>10)
			}
		}
		t.Logf("shuffled %v: %d KB of data hold %d KB", shuffled, most>>10, w.tree.blocks.Held()>>10)
		for _, path := range paths {
			w.apply(1, zk.Txn{Op: zk.OpDelete, Path: path})
		}
		if held := w.tree.blocks.Held(); held > compact.SpareBytes*9/8 {
			t.Fatalf("shuffled %v: without any data %d bytes are held", shuffled, held)
		}
	}
}

func BenchmarkFind(b *testing.B) {
	w := newWorld(1)
	w.apply(1, zk.Txn{Op: zk.OpCreate, Path: "/bench", ACL: zk.OpenACL(), ParentCversion: 1})
	paths := make([]string, 1<<18)
	for i := range paths {
		paths[i] = fmt.Sprintf("/bench/node-%d", i)
		w.tree.Apply(&zk.TxnHeader{Zxid: zk.Zxid(i + 5)}, &zk.Txn{Op: zk.OpCreate, Path: paths[i], Data: make([]byte, 100), ACL: zk.OpenACL(), ParentCversion: int32(i)}, &w.out)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, ok := w.tree.Find(paths[(i*7919)&(len(paths)-1)]); !ok {
			b.Fatal("not found")
		}
		i++
	}
}

func BenchmarkCreate(b *testing.B) {
	tree := New(Options{})
	var out Applied
	b.ReportAllocs()
	data := make([]byte, 100)
	acl := zk.OpenACL()
	i := 0
	for b.Loop() {
		i++
		tree.Apply(&zk.TxnHeader{Zxid: zk.Zxid(i)}, &zk.Txn{Op: zk.OpCreate, Path: fmt.Sprintf("/node-%d", i), Data: data, ACL: acl, ParentCversion: int32(i)}, &out)
	}
}

func TestPastDigestsAreThoseOfEach128thTransaction(t *testing.T) {
	tree := New(Options{})
	var applied Applied
	for zxid := zk.Zxid(1); zxid <= 128*(pastMax+3); zxid++ {
		tree.Apply(&zk.TxnHeader{Zxid: zxid}, &zk.Txn{Op: zk.OpSetData, Path: zk.RootPath, Version: int32(zxid)}, &applied)
		tree.KeepDigest()
	}
	past := tree.PastDigests()
	if len(past) != pastMax || past[0].Zxid != 128*4 || past[pastMax-1] != (PastDigest{128 * (pastMax + 3), tree.Digest().Value}) {
		t.Errorf("%d digests, from %s to %+v", len(past), past[0].Zxid, past[len(past)-1])
	}
}

// A scan of the reaper is one step, however long the names are that it finds.
func TestReapableStopsAtSoManyBytes(t *testing.T) {
	w := newWorld(1)
	for i := range 30 {
		path := fmt.Sprintf("/%02d%s", i, strings.Repeat("n", 997))
		w.apply(1, zk.Txn{Op: zk.OpCreateContainer, Path: path, ACL: zk.OpenACL(), ParentCversion: -1})
	}
	for most, want := range map[int64]int{10_000: 10, 10_001: 11, 1 << 30: 30, 0: 0} {
		got, next := w.tree.Reapable(w.tree.Reaps(), 1<<40, 1, 100, most)
		if len(got) != want || next != 30-want {
			t.Errorf("%d of %d bytes, and it goes on at %d, want %d", len(got), most, next, want)
		}
	}
}

// A scan of the reaper is one step, however many znodes there are to look at, and the next one
// continues: deletions meanwhile hide none of the others.
func TestReapableLooksAtSoManyAndGoesOn(t *testing.T) {
	w := newWorld(1)
	const all = 2*reapLooks + 500
	for i := range all {
		op, ttl := zk.OpCreateContainer, int64(0)
		if i%2 == 0 {
			op, ttl = zk.OpCreateTTL, 1
		}
		w.apply(1, zk.Txn{Op: op, Path: fmt.Sprintf("/%d", i), TTL: ttl, ACL: zk.OpenACL(), ParentCversion: -1})
	}
	seen := 0
	for calls, at := 1, w.tree.Reaps(); ; calls++ {
		paths, next := w.tree.Reapable(at, 1<<40, 1, all, 1<<30)
		if at-next > reapLooks {
			t.Fatalf("one call looks at %d", at-next)
		}
		for _, path := range paths {
			seen++
			w.apply(1, zk.Txn{Op: zk.OpDelete, Path: path})
		}
		if at = next; at == 0 {
			if calls != 3 || seen != all || w.tree.Reaps() != 0 {
				t.Errorf("%d calls found %d of %d", calls, seen, all)
			}
			return
		}
	}
}

// The sum of a stat continues from any other sum as package crc32 would.
func TestSumOfAStatIsItsCRC(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var scratch Scratch
	for range 1000 {
		s := zk.StatPersisted{
			Czxid: zk.Zxid(random.Uint64()), Mzxid: zk.Zxid(random.Uint64()), Pzxid: zk.Zxid(random.Uint64()),
			Ctime: int64(random.Uint64()), Mtime: int64(random.Uint64()), Version: int32(random.Uint32()),
			Cversion: int32(random.Uint32()), Aversion: int32(random.Uint32()), EphemeralOwner: int64(random.Uint64()),
		}
		var b []byte
		for _, n := range []uint64{uint64(s.Czxid), uint64(s.Mzxid), uint64(s.Pzxid), uint64(s.Ctime), uint64(s.Mtime)} {
			b = binary.BigEndian.AppendUint64(b, n)
		}
		for _, n := range []int32{s.Version, s.Cversion, s.Aversion} {
			b = binary.BigEndian.AppendUint32(b, uint32(n))
		}
		b = binary.BigEndian.AppendUint64(b, uint64(s.EphemeralOwner))
		body := random.Uint32()
		if got, want := statSum(body, &s, &scratch), uint64(crc32.Update(body, crc32.IEEETable, b)); got != want {
			t.Fatalf("the sum of %+v after %#x is %#x, want %#x", s, body, got, want)
		}
	}
}

// The sum of a path and data is that of both in sequence, however long they are, and whatever
// was summed before in the same space.
func TestSumOfABodyIsItsCRC(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 3))
	var scratch Scratch
	for path := range 80 {
		for data := range 500 {
			name, body := make([]byte, path), make([]byte, data)
			for _, b := range [][]byte{name, body} {
				for i := range b {
					b[i] = byte(random.Uint32())
				}
			}
			want := crc32.Update(crc32.ChecksumIEEE(name), crc32.IEEETable, body)
			if got := BodySum(string(name), body, &scratch); got != want && string(name) != "/" {
				t.Fatalf("the sum of %d and %d bytes is %#x, want %#x", path, data, got, want)
			}
		}
	}
	if got, want := BodySum("/", []byte("data of the root"), &scratch), crc32.ChecksumIEEE([]byte("data of the root")); got != want {
		t.Errorf("the sum of the root is %#x, want %#x: its path is empty", got, want)
	}
}

func BenchmarkSumOfABody(b *testing.B) {
	var scratch Scratch
	sum, data := uint32(0), make([]byte, 100)
	for b.Loop() {
		sum += BodySum("/bench/n0001234", data, &scratch)
	}
	if sum == 0 {
		b.Error("nothing was summed")
	}
}

func BenchmarkSumOfAStat(b *testing.B) {
	var scratch Scratch
	s := zk.StatPersisted{Czxid: 1, Mzxid: 2, Version: 3}
	for b.Loop() {
		s.Mzxid += zk.Zxid(statSum(7, &s, &scratch))
	}
}

// next shows an entry in a text of its own.
func next(s *Scan, e *Entry) bool {
	_, ok := s.Next(e, nil)
	return ok
}
