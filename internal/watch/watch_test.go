package watch

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/zk"
)

// naive is the table as its documentation says it: a list of watches.
type naive struct{ all []want }

type want struct {
	conn session.ConnID
	r    Registry
	path string
	mode modes
}

func (n *naive) add(w want) {
	if !slices.Contains(n.all, w) {
		n.all = append(n.all, w)
	}
}

func (n *naive) fire(kind zk.EventType, path string) []session.ConnID {
	var to []session.ConnID
	var kept []want
	for _, w := range n.all {
		data := w.r == Data && kind != zk.EventNodeChildrenChanged
		child := w.r == Child && (kind == zk.EventNodeChildrenChanged || kind == zk.EventNodeDeleted)
		at := w.path == path && (data || child)
		above := w.mode == recursive && kind != zk.EventNodeChildrenChanged &&
			(w.path == "/" || strings.HasPrefix(path, w.path+"/"))
		if (at || above) && !slices.Contains(to, w.conn) {
			to = append(to, w.conn)
		}
		if !at || w.mode != standard {
			kept = append(kept, w)
		}
	}
	n.all = kept
	slices.Sort(to)
	return to
}

func TestTableEqualsItsNaiveModel(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	paths := []string{"/", "/a", "/a/b", "/a/b/c", "/d"}
	kinds := []zk.EventType{zk.EventNodeCreated, zk.EventNodeDeleted, zk.EventNodeDataChanged, zk.EventNodeChildrenChanged}
	table, model, many := New(), &naive{}, 0
	for i := range 50000 {
		conn := session.ConnID(1 + random.IntN(40))
		path := paths[random.IntN(len(paths))]
		switch random.IntN(10) {
		case 0, 1, 2:
			r := Registry(random.IntN(2))
			table.Add(conn, r, path)
			model.add(want{conn, r, path, standard})
		case 3:
			table.AddMode(conn, zk.WatchPersistent, path)
			model.add(want{conn, Data, path, persistent})
			model.add(want{conn, Child, path, persistent})
		case 4:
			table.AddMode(conn, zk.WatchPersistentRecursive, path)
			model.add(want{conn, Data, path, recursive})
		case 5:
			kind := zk.WatcherType(1 + random.IntN(5))
			had := false
			for _, p := range placesOf(kind) {
				model.all = slices.DeleteFunc(model.all, func(w want) bool {
					hit := w.conn == conn && w.path == path && w.r == p.registry && w.mode&p.modes != 0
					had = had || hit
					return hit
				})
			}
			if table.Has(conn, kind, path) != had || table.Remove(conn, kind, path) != had || table.Has(conn, kind, path) {
				t.Fatalf("step %d: removal of type %d at %s by %d differs", i, kind, path, conn)
			}
		case 6:
			table.Forget(conn)
			model.all = slices.DeleteFunc(model.all, func(w want) bool { return w.conn == conn })
		default:
			kind := kinds[random.IntN(len(kinds))]
			got := table.Fire(kind, path, nil)
			slices.Sort(got)
			if want := model.fire(kind, path); !slices.Equal(got, want) {
				t.Fatalf("step %d: %s at %s tells %v, want %v", i, kind, path, got, want)
			}
		}
		spots := map[want]bool{}
		for _, w := range model.all {
			w.mode = 0
			spots[w] = true
		}
		if got := table.Counts().All; got != len(spots) {
			t.Fatalf("step %d: counts %d watches, model has %d", i, got, len(spots))
		}
		if i%20 == 0 {
			many += judgePlaces(t, table)
		}
	}
	for conn := range session.ConnID(41) {
		table.Forget(conn)
	}
	if c := table.Counts(); c != (Counts{}) || len(table.mu.byConn) != 0 || table.mu.recursive != 0 {
		t.Fatalf("something is left: %+v", c)
	}
	if many == 0 {
		t.Error("no path had many watchers")
	}
}

// judgePlaces compares the places that are noted with those that are: where many watch
// one path, they are not searched one after the other. It returns at how many paths.
func judgePlaces(t *testing.T, table *Table) (many int) {
	t.Helper()
	for r := range table.mu.registries {
		for path, s := range table.mu.registries[r].spots {
			if s.places == nil {
				if len(s.more) > searchMax {
					t.Fatalf("%s: %d watchers without places", path, len(s.more))
				}
				continue
			}
			many++
			if len(s.places) != len(s.more) {
				t.Fatalf("%s: %d places of %d watchers", path, len(s.places), len(s.more))
			}
			for i, w := range s.more {
				if at, ok := s.places[w.conn]; !ok || at != i {
					t.Fatalf("%s: connection %d is at %d, noted is %d, %t", path, w.conn, i, at, ok)
				}
			}
		}
	}
	return many
}
