package model

import (
	"fmt"
	"strings"
)

// Ref stands for an interned value. 0 is nothing, and the empty queue.
type Ref uint32

// Move is one thing that can happen, as the model numbers it.
type Move uint32

// Slot says what a slot of a state holds.
type Slot uint8

// The kinds of slots.
const (
	Part   Slot = iota // a value that takes events
	Queue              // values in order
	Number             // a small number, such as how many faults of a kind are left
)

// Model describes a system. Its functions keep no state between calls; several
// goroutines call them, each with its own World.
type Model struct {
	// Name and Scope say, for people, what the model is and what is explored.
	Name, Scope string
	Shape       *Shape
	Slots       []Slot
	// Symmetries[k][slot] is the new place of a slot under Shape.Orders[k]. Nil
	// if no parts are interchangeable.
	Symmetries [][]int
	// Starts is the number of initial states, and Start makes one of them.
	Starts int
	Start  func(w *World, n int)
	// Step gives an event to a part, which it may change, and returns the
	// part's effects. A panic is a violation.
	Step func(part, event any) []any
	// Moves appends the possible moves, in an order that depends only on the
	// state. Do makes a move.
	Moves func(w *World, moves []Move) []Move
	Do    func(w *World, m Move)
	// Check, if not nil, calls World.Fail if a state is wrong.
	Check func(w *World)
	// Rest, if not nil, removes all faults. Then Converge makes the next step of
	// the system on its own, until it returns true in a good state. It fails if
	// no step is possible. ConvergeMax limits the steps.
	Rest        func(w *World)
	Converge    func(w *World) bool
	ConvergeMax int
	// StoryHead is the beginning of a story for the machine's testdata, if
	// traces can be written as stories. The commands of World.Command follow it.
	StoryHead string
}

// Effect is an effect of a part. Ref is the interned value.
type Effect struct {
	Value any
	Ref   Ref
}

// outcome is the result of an event on a part.
type outcome struct {
	next    Ref
	effects []Effect
	wrong   string
}

// World is one state that is being examined or changed.
type World struct {
	m     *Model
	shape *Shape // with plans of its own
	space *space
	slots []uint32
	wrong string

	steps  map[uint64]*outcome // by part and event
	pushed map[uint64]Ref      // by queue and value
	popped map[Ref]Ref
	events map[any]Ref

	notifying bool
	lines     []string
	commands  []string
}

func newWorld(m *Model, s *space) *World {
	shape := *m.Shape
	shape.plans = nil
	return &World{m: m, shape: &shape, space: s, slots: make([]uint32, len(m.Slots)),
		steps: map[uint64]*outcome{}, pushed: map[uint64]Ref{}, popped: map[Ref]Ref{}, events: map[any]Ref{}}
}

// Fail reports a violation; the first report counts.
func (w *World) Fail(format string, args ...any) {
	if w.wrong == "" {
		w.wrong = fmt.Sprintf(format, args...)
	}
}

// Say adds a line to the trace, if there is one.
func (w *World) Say(format string, args ...any) {
	if w.notifying {
		w.lines = append(w.lines, fmt.Sprintf(format, args...))
	}
}

// Command records a command of a story, if one is being written.
func (w *World) Command(format string, args ...any) {
	if w.notifying {
		w.commands = append(w.commands, fmt.Sprintf(format, args...))
	}
}

// Intern returns the Ref of a value. The value must not change any more.
func (w *World) Intern(value any) Ref { return w.space.intern(w.shape, value) }

// Event is a faster Intern for comparable values.
func (w *World) Event(value any) Ref {
	ref, ok := w.events[value]
	if !ok {
		ref = w.Intern(value)
		w.events[value] = ref
	}
	return ref
}

// Value returns what a Ref stands for. It must not be changed.
func (w *World) Value(r Ref) any { return w.space.at(r).value }

// Number returns the number in a slot.
func (w *World) Number(slot int) int { return int(w.slots[slot]) }

// SetNumber changes it.
func (w *World) SetNumber(slot, n int) { w.slots[slot] = uint32(n) }

// Spend takes one from a number, and reports whether there was one left.
func (w *World) Spend(slot int) bool {
	if w.slots[slot] == 0 {
		return false
	}
	w.slots[slot]--
	return true
}

// Part returns the value in a slot, nil for none. It must not be changed.
func (w *World) Part(slot int) any {
	if w.slots[slot] == 0 {
		return nil
	}
	return w.Value(Ref(w.slots[slot]))
}

// PartRef returns the Ref of the value in a slot.
func (w *World) PartRef(slot int) Ref { return Ref(w.slots[slot]) }

// Put puts a value into a slot.
func (w *World) Put(slot int, value any) { w.slots[slot] = uint32(w.Intern(value)) }

// PutRef puts an interned value into a slot.
func (w *World) PutRef(slot int, r Ref) { w.slots[slot] = uint32(r) }

// Give gives an event to the part in a slot and returns its effects.
func (w *World) Give(slot int, event Ref) []Effect {
	key := uint64(w.slots[slot])<<32 | uint64(event)
	o := w.steps[key]
	if o == nil {
		o = w.step(Ref(w.slots[slot]), event)
		w.steps[key] = o
	}
	if o.wrong != "" {
		w.Fail("%s", o.wrong)
	}
	w.slots[slot] = uint32(o.next)
	return o.effects
}

// step computes the result of an event on a part.
func (w *World) step(part, event Ref) (o *outcome) {
	o = &outcome{next: part}
	defer func() {
		if r := recover(); r != nil {
			o.wrong = fmt.Sprint(r)
		}
	}()
	changed := w.shape.Clone(w.Value(part))
	for _, value := range w.m.Step(changed, w.Value(event)) {
		o.effects = append(o.effects, Effect{value, w.Intern(value)})
	}
	o.next = w.Intern(changed)
	return o
}

// Len returns how many values a queue has.
func (w *World) Len(slot int) int { return len(w.queue(Ref(w.slots[slot]))) }

func (w *World) queue(r Ref) []Ref {
	if r == 0 {
		return nil
	}
	return w.space.at(r).queue
}

// At returns a value of a queue, 0 being the oldest.
func (w *World) At(slot, i int) Ref { return w.queue(Ref(w.slots[slot]))[i] }

// Push puts a value at the end of a queue.
func (w *World) Push(slot int, r Ref) {
	key := uint64(w.slots[slot])<<32 | uint64(r)
	next, ok := w.pushed[key]
	if !ok {
		old := w.queue(Ref(w.slots[slot]))
		next = w.space.internQueue(append(append(make([]Ref, 0, len(old)+1), old...), r))
		w.pushed[key] = next
	}
	w.slots[slot] = uint32(next)
}

// Pop takes the oldest value from a queue.
func (w *World) Pop(slot int) Ref {
	old := Ref(w.slots[slot])
	next, ok := w.popped[old]
	if !ok {
		next = w.space.internQueue(w.queue(old)[1:])
		w.popped[old] = next
	}
	w.slots[slot] = uint32(next)
	return w.queue(old)[0]
}

// Clear empties a queue.
func (w *World) Clear(slot int) { w.slots[slot] = 0 }

// hash is that of the whole state: the least one under all symmetries.
func (w *World) hash() Hash {
	least := Hash{^uint64(0), ^uint64(0)}
	for k := range max(1, len(w.m.Symmetries)) {
		var h Hash
		for slot, kind := range w.m.Slots {
			place, value := slot, w.slots[slot]
			if k > 0 {
				place = w.m.Symmetries[k][slot]
			}
			one := Hash{uint64(place) * oddA, uint64(place) * oddB}
			if kind == Number || value == 0 {
				one.add(uint64(value))
			} else {
				one.addAll(w.space.at(Ref(value)).hashes[k])
			}
			h.merge(one)
		}
		if h.A < least.A || h.A == least.A && h.B < least.B {
			least = h
		}
	}
	if least == (Hash{}) {
		least.A = 1
	}
	return least
}

// do makes a move; a panic of a machine is a violation.
func (w *World) do(m Move) {
	w.m.Do(w, m)
	if w.wrong == "" && w.m.Check != nil {
		w.m.Check(w)
	}
}

// text is what was said, as one text.
func text(lines []string) string { return strings.Join(lines, "\n") + "\n" }
