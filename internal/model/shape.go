package model

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unsafe"
)

// Shape defines how the values of a model are copied and compared. Fields are
// named as in "fle.Machine.out"; "zab.Options.*" means all fields of a type.
type Shape struct {
	// Scratch are fields that do not affect later steps, such as buffers of the
	// last step. They are neither copied nor compared.
	Scratch []string
	// Moments are fields that hold a moment by the part's clock, or a map to moments; 0 is never.
	// They are compared by their distance from now. Moments at least PastMs ago are all equal.
	Moments []string
	// Spans are fields that hold milliseconds and are compared as they are. A
	// field whose name ends in Ms must be in one of these two lists.
	Spans  []string
	PastMs int64
	// Shared are types whose values never change: copies share them.
	Shared []reflect.Type
	// Names are types whose values name one of several interchangeable parts. The
	// function returns which one (from 0; negative for none), and the rest of the
	// value. A slice of names is a set.
	Names map[reflect.Type]func(value reflect.Value) (which int, rest uint64)
	// Orders are the permutations of those parts: Orders[k][i] is the new number
	// of i. The first one is the identity.
	Orders [][]int

	plans map[reflect.Type]*plan
}

// Clocked is a part that has a clock: parts with the same content are equal,
// whatever the time. That is correct only if no moment leaves the part in an effect
// or an event. Moments of other parts are compared as they are.
type Clocked interface{ Clock() int64 }

// plan is how to copy and hash one type.
type plan struct {
	flat   bool // a shallow copy is enough
	deepen func(c *copying, p unsafe.Pointer)
	hash   func(h *hashing, p unsafe.Pointer)
}

// copying is the state of one copy.
type copying struct {
	s    *Shape
	seen map[unsafe.Pointer]unsafe.Pointer // shared targets are copied once
}

// hashing is the state of one hash.
type hashing struct {
	Hash
	s     *Shape
	nowMs int64
	order []int
}

// Clone makes a deep copy of what a pointer points at (model-E1).
func (s *Shape) Clone(value any) any {
	v := reflect.ValueOf(value)
	if v.Kind() != reflect.Pointer {
		panic(fmt.Sprintf("model: %T is no pointer", value))
	}
	c := &copying{s: s, seen: map[unsafe.Pointer]unsafe.Pointer{}}
	p := v.UnsafePointer()
	s.plan(v.Type()).deepen(c, unsafe.Pointer(&p))
	return reflect.NewAt(v.Type().Elem(), p).Interface()
}

// HashOf returns the hash of a value with the parts permuted by an order (model-E2).
func (s *Shape) HashOf(value any, order int) Hash {
	h := &hashing{s: s}
	if c, ok := value.(Clocked); ok {
		h.nowMs = c.Clock()
	}
	if order < len(s.Orders) {
		h.order = s.Orders[order]
	}
	h.dynamic(reflect.ValueOf(value))
	if h.Hash == (Hash{}) {
		h.A = 1
	}
	return h.Hash
}

// dynamic hashes a value whose type is known only at run time.
func (h *hashing) dynamic(v reflect.Value) {
	t := v.Type()
	h.text(t.String())
	holder := reflect.New(t)
	holder.Elem().Set(v)
	h.s.plan(t).hash(h, holder.UnsafePointer())
}

// Prepare makes the plan of a type. Plans are made before a search begins, or by
// one goroutine at a time.
func (s *Shape) plan(t reflect.Type) *plan {
	if s.plans == nil {
		s.plans = map[reflect.Type]*plan{}
	}
	if p := s.plans[t]; p != nil {
		return p
	}
	p := &plan{}
	s.plans[t] = p // types may refer to themselves
	s.build(p, t)
	if slices.Contains(s.Shared, t) {
		p.flat, p.deepen = true, nil
	}
	if index := s.Names[t]; index != nil {
		p.hash = nameHash(t, index, p.hash)
	}
	return p
}

func nameHash(t reflect.Type, index func(reflect.Value) (int, uint64), plain func(*hashing, unsafe.Pointer)) func(*hashing, unsafe.Pointer) {
	return func(h *hashing, p unsafe.Pointer) {
		which, rest := index(reflect.NewAt(t, p).Elem())
		if which < 0 || which >= len(h.order) {
			plain(h, p)
			return
		}
		h.add(uint64(h.order[which]) + 1<<40)
		h.add(rest)
	}
}

func (s *Shape) build(p *plan, t reflect.Type) {
	size := t.Size()
	switch t.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		p.flat, p.hash = true, numberHash(size)
	case reflect.String:
		p.flat = true
		p.hash = func(h *hashing, p unsafe.Pointer) { h.text(*(*string)(p)) }
	case reflect.Struct:
		s.buildStruct(p, t)
	case reflect.Array:
		s.buildArray(p, t)
	case reflect.Pointer:
		s.buildPointer(p, t)
	case reflect.Slice:
		s.buildSlice(p, t)
	case reflect.Map:
		s.buildMap(p, t)
	case reflect.Interface:
		s.buildInterface(p, t)
	case reflect.Func:
		p.flat, p.hash = true, func(_ *hashing, at unsafe.Pointer) {
			if *(*unsafe.Pointer)(at) != nil {
				panic("model: a function cannot be compared; name its field in Scratch")
			}
		}
	default:
		panic(fmt.Sprintf("model: a %v cannot be copied and compared; name its field in Scratch", t))
	}
}

func numberHash(size uintptr) func(*hashing, unsafe.Pointer) {
	switch size {
	case 1:
		return func(h *hashing, p unsafe.Pointer) { h.add(uint64(*(*uint8)(p))) }
	case 2:
		return func(h *hashing, p unsafe.Pointer) { h.add(uint64(*(*uint16)(p))) }
	case 4:
		return func(h *hashing, p unsafe.Pointer) { h.add(uint64(*(*uint32)(p))) }
	}
	return func(h *hashing, p unsafe.Pointer) { h.add(*(*uint64)(p)) }
}

// step is how to copy and hash one field.
type step struct {
	offset uintptr
	plan   *plan
	clear  reflect.Type // of scratch
	moment bool
}

func (s *Shape) buildStruct(p *plan, t reflect.Type) {
	var steps []step
	p.flat = true
	for i := range t.NumField() {
		f := t.Field(i)
		name := t.String() + "." + f.Name
		switch {
		case named(s.Scratch, name):
			steps = append(steps, step{offset: f.Offset, clear: f.Type})
			p.flat = false
			continue
		case named(s.Moments, name):
			steps = append(steps, step{offset: f.Offset, moment: f.Type.Kind() == reflect.Int64, plan: s.moments(f.Type)})
			p.flat = p.flat && f.Type.Kind() == reflect.Int64
			continue
		case strings.HasSuffix(strings.ToLower(f.Name), "ms") && f.Type.Kind() == reflect.Int64 && !named(s.Spans, name):
			panic("model: is " + name + " a moment or a span? Name it in the Shape")
		}
		field := s.plan(f.Type)
		steps = append(steps, step{offset: f.Offset, plan: field})
		p.flat = p.flat && field.flat
	}
	p.deepen = func(c *copying, at unsafe.Pointer) {
		for _, f := range steps {
			switch {
			case f.clear != nil:
				reflect.NewAt(f.clear, unsafe.Add(at, f.offset)).Elem().SetZero()
			case !f.plan.flat:
				f.plan.deepen(c, unsafe.Add(at, f.offset))
			}
		}
	}
	p.hash = func(h *hashing, at unsafe.Pointer) {
		for _, f := range steps {
			switch {
			case f.clear != nil:
			case f.moment:
				h.moment(*(*int64)(unsafe.Add(at, f.offset)))
			default:
				f.plan.hash(h, unsafe.Add(at, f.offset))
			}
		}
	}
}

// named reports whether a list has a field, or all of its type.
func named(list []string, name string) bool {
	return slices.Contains(list, name) || slices.Contains(list, name[:strings.LastIndex(name, ".")]+".*")
}

// moments is the plan of a moment, or of a map to moments.
func (s *Shape) moments(t reflect.Type) *plan {
	if t.Kind() != reflect.Map {
		return s.plan(t)
	}
	p, key := &plan{}, s.plan(t.Key())
	s.buildMap(p, t)
	p.hash = func(h *hashing, at unsafe.Pointer) {
		v := reflect.NewAt(t, at).Elem()
		h.add(flag(v.IsNil()))
		for entries := v.MapRange(); entries.Next(); {
			k := reflect.New(t.Key())
			k.Elem().Set(entries.Key())
			entry := &hashing{Hash: h.apart(key, k.UnsafePointer()), s: h.s, nowMs: h.nowMs}
			entry.moment(entries.Value().Int())
			h.merge(entry.Hash)
		}
	}
	return p
}

// moment hashes the distance of a moment from now.
func (h *hashing) moment(atMs int64) {
	if atMs == 0 {
		h.add(1 << 63)
		return
	}
	h.add(uint64(max(atMs-h.nowMs, -h.s.PastMs)))
}

func (s *Shape) buildArray(p *plan, t reflect.Type) {
	elem, size, n := s.plan(t.Elem()), t.Elem().Size(), t.Len()
	p.flat = elem.flat
	p.deepen = func(c *copying, at unsafe.Pointer) {
		for i := range n {
			elem.deepen(c, unsafe.Add(at, uintptr(i)*size))
		}
	}
	p.hash = func(h *hashing, at unsafe.Pointer) {
		for i := range n {
			elem.hash(h, unsafe.Add(at, uintptr(i)*size))
		}
	}
}

func (s *Shape) buildPointer(p *plan, t reflect.Type) {
	elem := s.plan(t.Elem())
	p.deepen = func(c *copying, at unsafe.Pointer) {
		old := *(*unsafe.Pointer)(at)
		if old == nil {
			return
		}
		made, ok := c.seen[old]
		if !ok {
			v := reflect.New(t.Elem())
			made = v.UnsafePointer()
			c.seen[old] = made
			v.Elem().Set(reflect.NewAt(t.Elem(), old).Elem())
			if !elem.flat {
				elem.deepen(c, made)
			}
		}
		*(*unsafe.Pointer)(at) = made
	}
	p.hash = func(h *hashing, at unsafe.Pointer) {
		target := *(*unsafe.Pointer)(at)
		h.add(flag(target != nil))
		if target != nil {
			elem.hash(h, target)
		}
	}
}

func flag(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func (s *Shape) buildSlice(p *plan, t reflect.Type) {
	elem, size := s.plan(t.Elem()), t.Elem().Size()
	isSet := s.Names[t.Elem()] != nil
	p.deepen = func(c *copying, at unsafe.Pointer) {
		v := reflect.NewAt(t, at).Elem()
		if v.IsNil() {
			return
		}
		made := reflect.MakeSlice(t, v.Len(), v.Len())
		reflect.Copy(made, v)
		v.Set(made)
		for i := 0; !elem.flat && i < v.Len(); i++ {
			elem.deepen(c, unsafe.Add(v.UnsafePointer(), uintptr(i)*size))
		}
	}
	p.hash = func(h *hashing, at unsafe.Pointer) {
		v := reflect.NewAt(t, at).Elem()
		h.add(flag(v.IsNil()))
		h.add(uint64(v.Len()))
		for i := range v.Len() {
			at := unsafe.Add(v.UnsafePointer(), uintptr(i)*size)
			if isSet {
				h.merge(h.apart(elem, at))
			} else {
				elem.hash(h, at)
			}
		}
	}
}

// apart returns the hash of a value on its own.
func (h *hashing) apart(p *plan, at unsafe.Pointer) Hash {
	alone := &hashing{s: h.s, nowMs: h.nowMs, order: h.order}
	p.hash(alone, at)
	return alone.Hash
}

func (s *Shape) buildMap(p *plan, t reflect.Type) {
	key, elem := s.plan(t.Key()), s.plan(t.Elem())
	p.deepen = func(c *copying, at unsafe.Pointer) {
		v := reflect.NewAt(t, at).Elem()
		if v.IsNil() {
			return
		}
		made := reflect.MakeMapWithSize(t, v.Len())
		for entries := v.MapRange(); entries.Next(); {
			value := reflect.New(t.Elem())
			value.Elem().Set(entries.Value())
			if !elem.flat {
				elem.deepen(c, value.UnsafePointer())
			}
			made.SetMapIndex(entries.Key(), value.Elem())
		}
		v.Set(made)
	}
	p.hash = func(h *hashing, at unsafe.Pointer) {
		v := reflect.NewAt(t, at).Elem()
		h.add(flag(v.IsNil()))
		h.add(uint64(v.Len()))
		for entries := v.MapRange(); entries.Next(); {
			k, e := reflect.New(t.Key()), reflect.New(t.Elem())
			k.Elem().Set(entries.Key())
			e.Elem().Set(entries.Value())
			entry := h.apart(key, k.UnsafePointer())
			entry.addAll(h.apart(elem, e.UnsafePointer()))
			h.merge(entry)
		}
	}
}

func (s *Shape) buildInterface(p *plan, t reflect.Type) {
	p.deepen = func(c *copying, at unsafe.Pointer) {
		v := reflect.NewAt(t, at).Elem()
		if v.IsNil() {
			return
		}
		plan := s.plan(v.Elem().Type())
		if plan.flat {
			return
		}
		made := reflect.New(v.Elem().Type())
		made.Elem().Set(v.Elem())
		plan.deepen(c, made.UnsafePointer())
		v.Set(made.Elem())
	}
	p.hash = func(h *hashing, at unsafe.Pointer) {
		v := reflect.NewAt(t, at).Elem()
		h.add(flag(v.IsNil()))
		if !v.IsNil() {
			h.dynamic(v.Elem())
		}
	}
}

// Orders returns all permutations of n interchangeable parts, for Shape.Orders.
func Orders(n int) [][]int {
	if n == 1 {
		return [][]int{{0}}
	}
	var all [][]int
	for at := n - 1; at >= 0; at-- {
		for _, rest := range Orders(n - 1) {
			all = append(all, slices.Insert(slices.Clone(rest), at, n-1))
		}
	}
	return all
}
