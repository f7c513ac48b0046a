package model

import (
	"reflect"
	"testing"
)

func nameOfPeer() map[reflect.Type]func(reflect.Value) (int, uint64) {
	return map[reflect.Type]func(reflect.Value) (int, uint64){
		reflect.TypeFor[peer](): func(v reflect.Value) (int, uint64) { return int(v.Int()), 0 },
	}
}

// fixed is a value that several structs share.
type fixed interface{ rule() string }

type rule struct{ text string }

func (r *rule) rule() string { return r.text }

// all has every kind of field.
type all struct {
	flag    bool
	small   uint8
	number  int64
	name    peer
	text    string
	list    []int
	deep    [][]string
	set     map[string]int
	table   map[peer]*leaf
	point   *leaf
	again   *leaf // the same as point
	any     any
	rules   fixed
	array   [2]leaf
	nowMs   int64
	atMs    int64
	timesMs map[peer]int64
	buffer  []int
}

type leaf struct {
	value int
	ids   []peer
}

func (a *all) Clock() int64 { return a.nowMs }

func filled() *all {
	a := &all{flag: true, small: 3, number: -4, name: 1, text: "a long text of 20 by", list: []int{1, 2, 3}, deep: [][]string{{"x"}, nil},
		set: map[string]int{"a": 1, "b": 2, "c": 3}, table: map[peer]*leaf{0: {value: 5}, 1: {value: 6}}, point: &leaf{7, []peer{0, 1}},
		any: leaf{8, []peer{1}}, rules: &rule{"r"}, nowMs: 5000, atMs: 4990, timesMs: map[peer]int64{0: 4980, 1: 4990}, buffer: []int{9}}
	a.again = a.point
	a.array[1].ids = []peer{2}
	return a
}

func shapeOfAll() *Shape {
	return &Shape{Scratch: []string{"model.all.buffer"}, Moments: []string{"model.all.nowMs", "model.all.atMs", "model.all.timesMs"}, PastMs: 100,
		Shared: []reflect.Type{reflect.TypeFor[fixed]()}, Names: nameOfPeer(), Orders: [][]int{{0, 1, 2}, {1, 0, 2}}}
}

// Each change of a copy must change its hash, and leave the original as it was.
func TestEveryFieldIsCopiedAndCompared(t *testing.T) {
	s := shapeOfAll()
	changes := map[string]func(a *all){
		"bool": func(a *all) { a.flag = false }, "uint8": func(a *all) { a.small++ }, "int64": func(a *all) { a.number-- },
		"name": func(a *all) { a.name = 0 }, "string": func(a *all) { a.text += "x" }, "end of a string": func(a *all) { a.text = "a long text of 20 bz" },
		"slice": func(a *all) { a.list[2] = 4 }, "length": func(a *all) { a.list = a.list[:2] }, "order": func(a *all) { a.list[0], a.list[1] = 2, 1 },
		"deep slice": func(a *all) { a.deep[0][0] = "y" }, "nil slice": func(a *all) { a.deep[1] = []string{} },
		"map value": func(a *all) { a.set["b"] = 5 }, "map values": func(a *all) { a.set["a"], a.set["b"] = 2, 1 },
		"map key": func(a *all) { delete(a.set, "c"); a.set["d"] = 3 }, "nil map": func(a *all) { a.set = nil },
		"behind a map": func(a *all) { a.table[0].value++ }, "pointer": func(a *all) { a.point.value++ }, "nil": func(a *all) { a.again = nil },
		"names": func(a *all) { a.point.ids = []peer{0} }, "any": func(a *all) { a.any = leaf{9, nil} }, "any type": func(a *all) { a.any = "leaf" },
		"behind any": func(a *all) { a.any.(leaf).ids[0] = 2 }, "rules": func(a *all) { a.rules = &rule{"s"} },
		"array": func(a *all) { a.array[1].ids[0] = 0 }, "moment": func(a *all) { a.atMs++ }, "clock": func(a *all) { a.nowMs++ },
		"moments": func(a *all) { a.timesMs[0]++ }, "moments exchanged": func(a *all) { a.timesMs[0], a.timesMs[1] = 4990, 4980 },
		"never": func(a *all) { a.atMs = 0 },
	}
	for name, change := range changes {
		original := filled()
		before := s.HashOf(original, 0)
		c := s.Clone(original).(*all)
		if c.buffer != nil || c.rules != original.rules || c.again != c.point || c.point == original.point {
			t.Fatalf("copied as %+v", c)
		}
		if s.HashOf(c, 0) != before {
			t.Fatal("a copy has another hash")
		}
		change(c)
		if s.HashOf(c, 0) == before {
			t.Errorf("a change is not seen: %s", name)
		}
		if s.HashOf(original, 0) != before {
			t.Errorf("a copy shares with its original: %s", name)
		}
	}
	covered := reflect.TypeFor[all]().NumField()
	if covered != 18 {
		t.Errorf("%d fields: add the new one to the changes", covered)
	}
}

func TestHashDoesNotDependOnWhatDoesNotCount(t *testing.T) {
	s := shapeOfAll()
	want := s.HashOf(filled(), 0)
	for name, change := range map[string]func(a *all){
		"time":           func(a *all) { a.nowMs += 700; a.atMs += 700; a.timesMs[0] += 700; a.timesMs[1] += 700 },
		"capacity":       func(a *all) { a.list = append(make([]int, 0, 50), a.list...) },
		"slack":          func(a *all) { a.list = append(append([]int{}, a.list...), 77)[:3] },
		"scratch":        func(a *all) { a.buffer = []int{1, 2} },
		"order of names": func(a *all) { a.point.ids[0], a.point.ids[1] = 1, 0 },
		"order of a map": func(a *all) { a.set = map[string]int{"c": 3, "b": 2, "a": 1} },
	} {
		a := filled()
		if change(a); s.HashOf(a, 0) != want {
			t.Errorf("the hash depends on %s", name)
		}
	}
	a, b := filled(), filled()
	a.atMs, b.atMs = 4000, 3000
	if s.HashOf(a, 0) != s.HashOf(b, 0) {
		t.Error("moments that are long past differ")
	}
}

func TestPartsThatAreAlikeCanBeExchanged(t *testing.T) {
	s := shapeOfAll()
	a, b := filled(), filled()
	b.name = 0
	b.table[0].value, b.table[1].value = 6, 5
	b.timesMs[0], b.timesMs[1] = 4990, 4980
	b.any.(leaf).ids[0] = 0
	if s.HashOf(a, 1) != s.HashOf(b, 0) || s.HashOf(a, 0) != s.HashOf(b, 1) || s.HashOf(a, 0) == s.HashOf(b, 0) {
		t.Fatal("exchanged parts do not have exchanged hashes")
	}
}

// A field ...Ms that is declared neither a moment nor a span could be either.
func TestTimesMustBeNamed(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Fatal("a time without a name was taken")
		}
	}()
	(&Shape{Moments: []string{"model.all.nowMs"}}).HashOf(filled(), 0)
}

func TestFaithfulWalksFindWhatIsNotCompared(t *testing.T) {
	m := toy(4, false)
	CheckFaithful(t.Fatalf, m, 300)
	m.Shape.Spans = append(m.Shape.Spans, "model.counter.*")
	shared := map[int]int{}
	step := m.Step
	m.Step = func(part, event any) []any { // not pure: the second of two steps differs
		shared[len(shared)] = 0
		part.(*counter).Value += len(shared) % 2
		return step(part, event)
	}
	found := false
	CheckFaithful(func(string, ...any) { found = true }, m, 50)
	if !found {
		t.Fatal("a step that is not pure was not found")
	}
}
