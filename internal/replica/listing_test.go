package replica

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/auth"
	"github.com/conclave-project/conclave/internal/jute"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/internal/watch"
	"github.com/conclave-project/conclave/zk"
)

// A list that is read in portions equals the children at its end, or is not good. Data of
// children that change, so that their names are stored elsewhere, change nothing about it.
func TestListingIsTheChildrenAtItsEndOrNotGood(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 16))
	v := &Reader{Tree: tree.New(tree.Options{}), Watches: watch.New(), Auth: &auth.Rules{}, Run: "r"}
	zxid, made := zk.Zxid(0), 0
	var names []string
	var applied tree.Applied
	apply := func(txn zk.Txn) {
		zxid++
		v.Tree.Apply(&zk.TxnHeader{Zxid: zxid}, &txn, &applied)
	}
	create := func(dir string) string {
		made++
		path := fmt.Sprintf("%s/n%07d", dir, made)
		apply(zk.Txn{Op: zk.OpCreate, Path: path, Data: make([]byte, random.IntN(60)), ACL: zk.OpenACL(), ParentCversion: int32(made)})
		return path[len(dir)+1:]
	}
	apply(zk.Txn{Op: zk.OpCreate, Path: "/d", ACL: zk.OpenACL(), ParentCversion: 1})
	for range 2*listingPart + 500 {
		names = append(names, create("/d"))
	}
	req, who := &zk.Request{Op: zk.OpGetChildren2, Path: "/d", Watch: true}, Caller{Conn: 1}
	var good, changed int
	for run := range 300 {
		var l Listing
		same, ok := true, true
		between := func() {
			if random.IntN(3) > 0 {
				moves := []string{strings.Clone(l.after)} // to another place in memory; the old one is used for other data
				for range 20 {
					moves = append(moves, names[random.IntN(len(names))])
				}
				for _, name := range moves {
					apply(zk.Txn{Op: zk.OpSetData, Path: "/d/" + name, Data: make([]byte, random.IntN(200)), Version: 1})
				}
				return
			}
			if same = random.IntN(3) > 0; same {
				return
			}
			switch random.IntN(5) {
			case 0:
				names = append(names, create("/d"))
			case 1:
				at := random.IntN(len(names))
				apply(zk.Txn{Op: zk.OpDelete, Path: "/d/" + names[at]})
				names = slices.Delete(names, at, at+1)
			case 2: // the same number of children
				at := random.IntN(len(names))
				apply(zk.Txn{Op: zk.OpDelete, Path: "/d/" + names[at]})
				names[at] = create("/d")
			case 3: // beyond the last number that changes of the children have: no pzxid rises any more
				names = append(names, fmt.Sprintf("late%03d", run))
				apply(zk.Txn{Op: zk.OpCreate, Path: "/d/" + names[len(names)-1], ACL: zk.OpenACL(), ParentCversion: math.MinInt32})
			case 4: // who may read it
				apply(zk.Txn{Op: zk.OpSetACL, Path: "/d", ACL: []zk.ACL{{Perms: zk.PermWrite, Identity: zk.Identity{Scheme: "world", ID: "anyone"}}}})
			}
		}
		for more := true; more && ok; {
			if more, ok = v.List(req, who, &l); same {
				between()
			}
		}
		var a Answer
		if ok {
			ok = v.Listed(req, who, &l, &a)
		}
		if ok != same || ok != v.Watches.Has(1, zk.WatcherChildren, "/d") {
			t.Fatalf("run %d: the children are the same: %v; the list is good: %v; it is watched: %v", run, same, ok, v.Watches.Has(1, zk.WatcherChildren, "/d"))
		}
		v.Watches.Remove(1, zk.WatcherAny, "/d")
		if apply(zk.Txn{Op: zk.OpSetACL, Path: "/d", ACL: zk.OpenACL()}); !ok {
			changed++
			continue
		}
		good++
		var got []string
		d := jute.NewDecoder(l.Names, len(l.Names))
		for range l.Count {
			got = append(got, d.String())
		}
		slices.Sort(got)
		want := slices.Sorted(slices.Values(names))
		if d.Err() != nil || d.Len() != 0 || !slices.Equal(got, want) || int(a.Result.Stat.NumChildren) != len(names) {
			t.Fatalf("run %d: %d names, %d by the stat, of %d; %d bytes more, %v", run, len(got), a.Result.Stat.NumChildren, len(want), d.Len(), d.Err())
		}
	}
	if min(good, changed) < 50 {
		t.Errorf("%d lists were good, %d not", good, changed)
	}
}
