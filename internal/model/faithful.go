package model

import (
	"reflect"
	"unsafe"
)

// CheckFaithful makes a random walk through a model. At each step it gives the
// event to the part and to a copy of a copy of it. Both must have the same
// result and effects, and a change of any compared field must change the hash.
// It is for tests of models (model-E1, model-E2).
func CheckFaithful(fatal func(format string, args ...any), m *Model, moves int) {
	w := newWorld(m, newSpace(m))
	steps := m.Step
	checked := 0
	own := *m
	own.Step = func(part, event any) []any {
		checked++
		twin := w.shape.Clone(w.shape.Clone(part))
		before := w.shape.HashOf(part, 0)
		if w.shape.HashOf(twin, 0) != before {
			fatal("a copy of %T has another hash", part)
		}
		effects, others := steps(part, event), steps(twin, event)
		if w.shape.HashOf(part, 0) != w.shape.HashOf(twin, 0) {
			fatal("%T and its copy are not alike after %#v", part, event)
		}
		if w.shape.HashOf(&effects, 0) != w.shape.HashOf(&others, 0) {
			fatal("%T and its copy want other things done after %#v:\n%v\n%v", part, event, effects, others)
		}
		for _, path := range w.shape.unseen(part) {
			fatal("a change of %s is not seen", path)
		}
		return effects
	}
	w.m = &own
	chance := uint64(1)
	var possible []Move
	for done := range moves {
		if len(possible) == 0 {
			clear(w.slots)
			m.Start(w, done%m.Starts)
		}
		if possible = m.Moves(w, possible[:0]); len(possible) == 0 {
			continue
		}
		chance++
		w.do(possible[mix(chance)%uint64(len(possible))])
		if w.wrong != "" {
			fatal("%s", w.wrong)
		}
	}
	if checked == 0 {
		fatal("nothing was stepped")
	}
}

// unseen returns the fields, at any depth, whose change does not change the hash.
func (s *Shape) unseen(part any) []string {
	root := s.Clone(part)
	before := s.HashOf(root, 0)
	var missed []string
	s.eachNumber(reflect.ValueOf(root).Elem(), "", func(path string, v reflect.Value) {
		old := reflect.New(v.Type()).Elem()
		old.Set(v)
		switch v.Kind() {
		case reflect.Bool:
			v.SetBool(!v.Bool())
		case reflect.String:
			v.SetString(v.String() + "?")
		default:
			if v.CanInt() {
				v.SetInt(v.Int() ^ 1)
			} else {
				v.SetUint(v.Uint() ^ 1)
			}
		}
		if s.HashOf(root, 0) == before {
			missed = append(missed, path)
		}
		v.Set(old)
	})
	return missed
}

// eachNumber visits the plain values of a part that can be changed in place: all
// but scratch, moments (which are compared by their distance), and what is
// behind interfaces and in maps.
func (s *Shape) eachNumber(v reflect.Value, path string, visit func(string, reflect.Value)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			s.eachNumber(v.Elem(), path, visit)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().String() + "." + v.Type().Field(i).Name
			if named(s.Scratch, name) || named(s.Moments, name) {
				continue
			}
			f := v.Field(i)
			s.eachNumber(reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem(), path+"."+name, visit)
		}
	case reflect.Slice:
		for i := range v.Len() {
			s.eachNumber(v.Index(i), path, visit)
		}
	case reflect.Map, reflect.Interface, reflect.Array, reflect.Func:
	default:
		visit(path, v)
	}
}
