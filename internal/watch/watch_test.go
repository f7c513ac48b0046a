package watch

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/zk"
)

// naive is the table as its documentation describes it: a list of watches.
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
	for _, portion := range []int{sweptAtOnce, 1, 0} { // what remains to be swept must have no effect
		table := New()
		table.portion = portion
		compare(t, table)
	}
}

func compare(t *testing.T, table *Table) {
	random := rand.New(rand.NewPCG(3, 3))
	paths := []string{"/", "/a", "/a/b", "/a/b/c", "/d"}
	kinds := []zk.EventType{zk.EventNodeCreated, zk.EventNodeDeleted, zk.EventNodeDataChanged, zk.EventNodeChildrenChanged}
	model, many, behind := &naive{}, 0, 0
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
		spots, bytes := map[want]bool{}, 0
		for _, w := range model.all {
			if w.mode == recursive {
				bytes += weightBelow + len(w.path)
			}
			if w.mode = 0; !spots[w] {
				spots[w] = true
				bytes += weight + len(w.path)
			}
		}
		if got := table.Counts().All; got != len(spots) || table.Bytes() != int64(bytes) {
			t.Fatalf("step %d: counts %d watches with %d bytes, model has %d with %d", i, got, table.Bytes(), len(spots), bytes)
		}
		if i%20 == 0 {
			many += judgePlaces(t, table)
			judgeReports(t, table, model)
		}
		if table.Sweeping() {
			behind++
		}
	}
	for conn := range session.ConnID(41) {
		table.Forget(conn)
	}
	if behind == 0 && table.portion < sweptAtOnce {
		t.Error("nothing ever stayed behind")
	}
	for table.portion = 7; table.Sweep(); {
	}
	if c := table.Counts(); c != (Counts{}) || len(table.mu.byConn) != 0 || table.mu.recursive != 0 || table.mu.spots.Len() != 0 || table.mu.above.Len() != 0 {
		t.Fatalf("something is left: %+v", c)
	}
	if many == 0 {
		t.Error("no path had many watchers")
	}
}

// judgeReports compares the watches that are reported with the model.
func judgeReports(t *testing.T, table *Table, model *naive) {
	t.Helper()
	byPath, byConn := map[string][]session.ConnID{}, map[session.ConnID][]string{}
	for _, w := range model.all {
		if w.r == Data && !slices.Contains(byPath[w.path], w.conn) {
			byPath[w.path] = append(byPath[w.path], w.conn)
			byConn[w.conn] = append(byConn[w.conn], w.path)
		}
	}
	gotPath, _ := table.ByPath()
	gotConn, _ := table.ByConn()
	for path := range byPath {
		slices.Sort(byPath[path])
		slices.Sort(gotPath[path])
	}
	for conn := range byConn {
		slices.Sort(byConn[conn])
	}
	if !maps.EqualFunc(byPath, gotPath, slices.Equal) || !maps.EqualFunc(byConn, gotConn, slices.Equal) {
		t.Fatalf("%v, %v; the model has %v, %v", gotPath, gotConn, byPath, byConn)
	}
}

// A connection with very many watches ends within a moment: Forget removes a portion, the
// following steps the rest, and each addition a few.
func TestForgetTakesNoLongerForManyWatches(t *testing.T) {
	const many = 20 * sweptAtOnce
	table := New()
	for i := range many {
		table.Add(1, Data, "/a"+strconv.Itoa(i))
		table.AddMode(1, zk.WatchPersistentRecursive, "/b"+strconv.Itoa(i))
	}
	table.Forget(1)
	if c := table.Counts(); c.All != 0 || c.Data != 0 || c.Conns != 0 || table.mu.recursive != 0 {
		t.Errorf("%+v after Forget", c)
	}
	if left := table.Counts().Paths; left != 2*many-sweptAtOnce {
		t.Errorf("Forget left %d paths of %d behind", left, 2*many)
	}
	if to := table.Fire(zk.EventNodeCreated, "/a1", nil); len(to) != 0 {
		t.Errorf("%v are told", to)
	}
	before := table.Counts().Paths
	table.Add(2, Data, "/c")
	if now := table.Counts().Paths; now != before+1-sweptWithOne {
		t.Errorf("%d paths, then %d with one more", before, now)
	}
	steps := 1
	for table.Sweep() {
		steps++
	}
	if c := table.Counts(); c.Paths != 1 || c.All != 1 || steps > 2*many/sweptAtOnce {
		t.Errorf("%+v after %d steps", c, steps)
	}
}

// judgePlaces compares what the spots, the connections and the index record of each other, and
// the noted places with the real ones: where many watch one path, they are not searched one
// after the other. It returns the number of such paths.
func judgePlaces(t *testing.T, table *Table) (many int) {
	t.Helper()
	m := &table.mu
	watchers, spots := 0, map[uint32]bool{}
	for _, w := range m.numbers.waits {
		if w == nil {
			continue
		}
		for r := range w.spots {
			for place, id := range w.spots[r] {
				s := m.spots.At(id)
				spots[id] = true
				watchers++
				if at := m.find(s, w.number); at == nil || int(at.at) != place || table.spot(Registry(r), m.pathOf(s)) != id {
					t.Fatalf("%d has %s at place %d of registry %d: %v", w.conn, m.pathOf(s), place, r, at)
				}
			}
		}
	}
	crowds := 0
	for id := range spots {
		s := m.spots.At(id)
		if watchers--; s.crowd == 0 {
			continue
		}
		crowds++
		c := m.crowds[s.crowd]
		watchers -= len(c.more)
		if len(c.more) == 0 && c.below.len() == 0 {
			t.Fatalf("%s has a crowd of nobody", m.pathOf(s))
		}
		if c.places == nil {
			if len(c.more) > searchMax {
				t.Fatalf("%s: %d watchers without places", m.pathOf(s), len(c.more))
			}
			continue
		}
		many++
		if len(c.places) != len(c.more) {
			t.Fatalf("%s: %d places of %d watchers", m.pathOf(s), len(c.places), len(c.more))
		}
		for i, w := range c.more {
			if at, ok := c.places[w.number]; !ok || int(at) != i {
				t.Fatalf("%s: number %d is at %d, noted is %d, %t", m.pathOf(s), w.number, i, at, ok)
			}
		}
	}
	if held := len(m.crowds) - 1 - len(m.idle); watchers != 0 || len(spots) != m.spots.Len() || crowds != held {
		t.Fatalf("%d watchers too few or many; %d spots of %d, %d crowds of %d", watchers, len(spots), m.spots.Len(), crowds, held)
	}
	for i, some := range m.numbers.told {
		if some != 0 {
			t.Fatalf("told from %d on: %x between events", 64*i, some)
		}
	}
	return many
}
