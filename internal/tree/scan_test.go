package tree

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/conclave-project/conclave/zk"
)

// entries shows all entries of a walk, in one text, and calls between before each.
func entries(t *Tree, between func()) (all []Entry) {
	s := t.NewScan()
	defer s.End()
	var text []byte
	for {
		between()
		var e Entry
		var ok bool
		if text, ok = s.Next(&e, text); !ok {
			return all
		}
		all = append(all, e)
	}
}

// Null stays null, and empty stays empty, in any text, including the root's.
func TestScanTellsNullFromEmpty(t *testing.T) {
	tr := New(Options{})
	l := tr.Load()
	_ = l.Node("/null", nil, -1, zk.StatPersisted{})
	_ = l.Node("/empty", []byte{}, -1, zk.StatPersisted{})
	_ = l.Node("/some", []byte("data"), -1, zk.StatPersisted{})
	l.Finish(1)
	seen := map[string]string{}
	for _, e := range entries(tr, func() {}) {
		seen[e.Path] = fmt.Sprintf("%q %v", e.Data, e.Data == nil)
	}
	for path, want := range map[string]string{"": `"" false`, "/null": `"" true`, "/empty": `"" false`, "/some": `"data" false`} {
		if seen[path] != want {
			t.Errorf("%q is shown with %s, not %s", path, seen[path], want)
		}
	}
}

// What a walk has shown belongs to its reader: it stays while the tree changes, and nothing
// that is appended to it overwrites what comes after it.
func TestWhatAScanHasShownStays(t *testing.T) {
	tr := New(Options{})
	l := tr.Load()
	const nodes = 50
	for i := range nodes {
		_ = l.Node(fmt.Sprintf("/n%02d", i), bytes.Repeat([]byte{'a'}, 40), -1, zk.StatPersisted{})
	}
	l.Finish(1)
	all := entries(tr, func() {})
	var out Applied
	for i := range nodes {
		tr.Apply(&zk.TxnHeader{Zxid: zk.Zxid(i + 2)}, &zk.Txn{Op: zk.OpSetData, Path: fmt.Sprintf("/n%02d", i), Data: bytes.Repeat([]byte{'b'}, 40)}, &out)
	}
	for i := range all {
		_ = append(all[i].Data, "overwritten"...)
	}
	count := 0
	for _, e := range all {
		if len(e.Data) == 40 {
			count++
			if n := bytes.Count(e.Data, []byte{'a'}); n != 40 || len(e.Path) != 4 || e.Path[:2] != "/n" {
				t.Errorf("%s has %q now", e.Path, e.Data)
			}
		}
	}
	if count != nodes {
		t.Errorf("%d znodes", count)
	}
}

// Each znode of a snapshot has the list of its number, even if a number occurs twice in the
// table, is that of the open list, or is missing; and each list has as many users as it should.
func TestZnodesHaveTheListOfTheirNumber(t *testing.T) {
	list := func(i int) []zk.ACL {
		if i == 0 {
			return zk.OpenACL()
		}
		return []zk.ACL{{Perms: zk.Perms(i%31 + 1), Identity: zk.Identity{Scheme: "digest", ID: fmt.Sprint("u", i)}}}
	}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		tr := New(Options{})
		l := tr.Load()
		table, numbers := map[int64][]zk.ACL{-1: zk.OpenACL()}, map[string]int64{}
		for range r.IntN(8) {
			number, entries := int64(r.IntN(6))-1, list(r.IntN(5))
			l.ACL(number, entries)
			table[number] = entries
		}
		for i := range 40 {
			path, number := fmt.Sprintf("/n%d", r.IntN(20)), int64(r.IntN(8))-1
			if err := l.Node(path, nil, number, zk.StatPersisted{Czxid: zk.Zxid(i)}); err != nil {
				t.Fatal(err)
			}
			numbers[path] = number
		}
		l.Finish(100)
		for path, number := range numbers {
			want, ok := table[number]
			if !ok {
				want = []zk.ACL{{Identity: zk.Identity{Scheme: "world", ID: "anyone"}}}
			}
			if n, _ := tr.Find(path); fmt.Sprint(n.ACL().Entries()) != fmt.Sprint(want) {
				t.Fatalf("seed %d: %s has %v, not %v", seed, path, n.ACL().Entries(), want)
			}
		}
		users := map[int64]int{}
		for _, e := range entries(tr, func() {}) {
			users[e.ACL]++
		}
		for number, l := range tr.acls.lists {
			if uint32(number) != openACL && l.users != users[int64(number)] {
				t.Fatalf("seed %d: list %d has %d users, not %d", seed, number, l.users, users[int64(number)])
			}
		}
	}
}
