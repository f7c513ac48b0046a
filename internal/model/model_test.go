package model

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// counter is a toy: two counters send each other numbers, one at a time.
type counter struct {
	Name  peer
	Value int
	NowMs int64
	dueMs int64 //lint:ignore U1000 only reflection reads it: a moment that the shape names
	shown map[int]bool
	out   []any //lint:ignore U1000 only reflection reads it: scratch that the shape ignores
}

type peer int

func (c *counter) Clock() int64 { return c.NowMs }

type (
	grow struct{}
	show struct {
		From  peer
		Value int
	}
	//lint:ignore U1000 only the shape names it: a type with a span
	pass struct{ Ms int64 }
)

// toy has two counters that grow up to a limit and tell each other their values.
func toy(limit int, symmetric bool) *Model {
	shape := &Shape{Scratch: []string{"model.counter.out"}, Moments: []string{"model.counter.NowMs", "model.counter.dueMs"},
		Spans: []string{"model.pass.Ms"}, PastMs: 10}
	m := &Model{Name: "toy", Shape: shape, Slots: []Slot{Part, Part, Queue, Queue}, Starts: 1}
	if symmetric {
		shape.Orders = [][]int{{0, 1}, {1, 0}}
		shape.Names = nameOfPeer()
		m.Symmetries = [][]int{{0, 1, 2, 3}, {1, 0, 3, 2}}
	}
	m.Start = func(w *World, _ int) {
		for i := range 2 {
			w.Put(i, &counter{Name: peer(i), NowMs: 1000, shown: map[int]bool{}})
		}
	}
	m.Step = func(part, event any) []any {
		c := part.(*counter)
		switch e := event.(type) {
		case grow:
			c.Value++
			return []any{show{c.Name, c.Value}}
		case show:
			c.shown[e.Value] = true
		}
		return nil
	}
	m.Moves = func(w *World, moves []Move) []Move {
		for i := range 2 {
			if w.Part(i).(*counter).Value < limit {
				moves = append(moves, Move(i))
			}
			if w.Len(2+i) > 0 {
				moves = append(moves, Move(2+i))
			}
		}
		return moves
	}
	m.Do = func(w *World, move Move) {
		if i := int(move); i < 2 {
			w.Say("%d grows", i)
			w.Command("grow %d", i)
			for _, e := range w.Give(i, w.Event(grow{})) {
				w.Push(2+(1-i), e.Ref)
			}
		} else {
			w.Say("%d receives", i-2)
			w.Give(i-2, w.Pop(i))
		}
	}
	return m
}

func TestAllStatesAreSeenOnce(t *testing.T) {
	// Each counter has grown k times, and the other has received j of those: there
	// are 21 pairs of k and j up to 5.
	if r := Explore(toy(5, false), Limits{}); r.States != 21*21 || r.Depth != 20 || r.Violation != nil || r.Unfinished != "" {
		t.Fatalf("%+v", r)
	}
	// Without order there are the 21 equal pairs, and half of the others.
	if r := Explore(toy(5, true), Limits{}); r.States != 21+21*20/2 || r.Depth != 20 {
		t.Fatalf("with symmetry %+v", r)
	}
}

func TestViolationHasTheShortestTraceForAnyNumberOfWorkers(t *testing.T) {
	var traces []string
	for _, workers := range []int{1, 2, 5} {
		m := toy(30, false)
		m.Check = func(w *World) {
			if a, b := w.Part(0).(*counter), w.Part(1).(*counter); a.Value == 3 && b.shown[2] {
				w.Fail("too far")
			}
		}
		m.StoryHead = "two"
		r := Explore(m, Limits{Workers: workers})
		if r.Violation == nil || len(r.Violation.Moves) != 5 || r.Violation.Wrong != "too far" {
			t.Fatalf("%d workers: %+v", workers, r)
		}
		traces = append(traces, fmt.Sprint(r.States, r.Moves, r.Violation.Trace, Story(m, r.Violation)))
	}
	if traces[0] != traces[1] || traces[0] != traces[2] {
		t.Fatalf("traces differ:\n%s", strings.Join(traces, "\n"))
	}
	if !strings.Contains(traces[0], "two\n----\n\ngrow 0\n----\n") {
		t.Fatalf("the story is\n%s", traces[0])
	}
}

func TestSearchThatDoesNotFinishSaysSo(t *testing.T) {
	if r := Explore(toy(200, false), Limits{States: 5000}); r.Unfinished == "" || r.States < 5000 {
		t.Fatalf("%+v", r)
	}
	if r := Explore(toy(1000, false), Limits{Time: time.Millisecond}); r.Unfinished == "" {
		t.Fatalf("%+v", r)
	}
	if r := Explore(toy(1000, false), Limits{Bytes: 1}); r.Unfinished == "" {
		t.Fatalf("%+v", r)
	}
}

func TestStateThatComesToNothingIsAViolation(t *testing.T) {
	for name, converge := range map[string]func(w *World) bool{
		"circle":  func(w *World) bool { w.Clear(2); return w.Part(0).(*counter).Value < 2 },
		"nothing": func(w *World) bool { w.Give(0, w.Event(grow{})); return w.Part(0).(*counter).Value == 2 },
		"fails":   func(w *World) bool { w.Fail("LIVENESS: nothing can happen"); return false },
	} {
		m := toy(4, false)
		m.Converge, m.ConvergeMax = converge, 20
		r := Explore(m, Limits{})
		if r.Violation == nil || !strings.HasPrefix(r.Violation.Wrong, "LIVENESS") {
			t.Fatalf("%s: %+v", name, r)
		}
		if want := map[string]int{"circle": 2, "nothing": 2, "fails": 0}[name]; len(r.Violation.Moves) != want {
			t.Fatalf("%s: after %d moves\n%s", name, len(r.Violation.Moves), r.Violation.Trace)
		}
	}
}

func TestPanicOfAMachineIsAViolation(t *testing.T) {
	m := toy(4, false)
	step := m.Step
	m.Step = func(part, event any) []any {
		if part.(*counter).Value == 3 {
			panic("invariant broken: three")
		}
		return step(part, event)
	}
	if r := Explore(m, Limits{}); r.Violation == nil || !strings.Contains(r.Violation.Wrong, "three") || len(r.Violation.Moves) != 4 {
		t.Fatalf("%+v", r)
	}
}
