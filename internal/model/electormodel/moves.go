package electormodel

import "github.com/conclave-project/conclave/internal/model"

// kinds of moves; the rest of a Move says who, or the place among the late.
const (
	moveAsk model.Move = iota << 16
	moveAnswer
	moveLateAsk
	moveLateAnswer
	moveLoseAsk
	moveLoseAnswer
	moveArrive
	moveTick
	movePass
	moveFreeze
	moveThaw
	moveReturn
	moveResign
)

const kindOf = ^model.Move(0xffff)

// moves lists what can happen.
func (s *system) moves(w *model.World, moves []model.Move) []model.Move {
	left := func(number int) bool { return w.Number(s.number(number)) > 0 }
	add := func(kind model.Move, who int, possible bool) {
		if possible {
			moves = append(moves, kind|model.Move(who))
		}
	}
	for i := range s.n {
		c := s.part(w, i)
		add(moveTick, i, !c.Frozen && s.due(c))
		asks, answers := w.Len(s.asks(i)) > 0, w.Len(s.answers(i)) > 0 && !c.Frozen
		add(moveAsk, i, asks)
		add(moveAnswer, i, answers)
		add(moveLateAsk, i, asks && left(lates))
		add(moveLateAnswer, i, answers && left(lates))
		add(moveLoseAsk, i, asks && left(losses))
		add(moveLoseAnswer, i, answers && left(losses))
	}
	busy := len(moves) > 0
	for i := range s.n {
		c := s.part(w, i)
		add(moveFreeze, i, !c.Frozen && left(freezes))
		add(moveThaw, i, c.Frozen)
		add(moveReturn, i, !c.Frozen && c.Runs != 0 && c.Told)
		add(moveResign, i, !c.Frozen && c.Runs != 0 && !c.Told && left(resigns))
	}
	for at := range w.Len(s.late()) {
		add(moveArrive, at, true)
	}
	add(movePass, 0, !busy && left(steps))
	return moves
}

func (s *system) due(c *candidate) bool {
	wakeMs, wakes := c.Machine.WakeMs()
	return wakes && wakeMs <= c.NowMs
}

// do lets a move happen.
func (s *system) do(w *model.World, m model.Move) {
	who := int(m & 0xff)
	switch m & kindOf {
	case moveAsk:
		s.arrive(w, w.Pop(s.asks(who)))
	case moveAnswer:
		s.arrive(w, w.Pop(s.answers(who)))
	case moveLateAsk:
		w.Spend(s.number(lates))
		w.Push(s.late(), w.Pop(s.asks(who)))
	case moveLateAnswer:
		w.Spend(s.number(lates))
		w.Push(s.late(), w.Pop(s.answers(who)))
	case moveLoseAsk:
		w.Spend(s.number(losses))
		w.Say("lost: %+v", w.Value(w.Pop(s.asks(who))))
	case moveLoseAnswer:
		w.Spend(s.number(losses))
		w.Say("lost: %+v", w.Value(w.Pop(s.answers(who))))
	case moveArrive:
		s.arriveLate(w, who)
	case moveTick:
		w.Say("%d: its time has come", who+1)
		s.give(w, who, w.Event(tick{}))
	case movePass:
		w.Spend(s.number(steps))
		s.pass(w)
	case moveFreeze:
		w.Spend(s.number(freezes))
		w.Say("%d stands still", who+1)
		s.give(w, who, w.Event(freeze{true}))
	case moveThaw:
		w.Say("%d goes on", who+1)
		s.give(w, who, w.Event(freeze{false}))
	case moveReturn:
		w.Say("%d: its function ends", who+1)
		s.give(w, who, w.Event(returned{}))
	case moveResign:
		w.Spend(s.number(resigns))
		w.Say("%d is asked to resign", who+1)
		s.give(w, who, w.Event(resign{}))
	}
}

// pass lets time pass. Who is in line asks again, and a mutant renews.
func (s *system) pass(w *model.World) {
	w.Say("time passes")
	for i := range s.n + 1 {
		w.Give(i, w.Event(pass{}))
	}
	for i := range s.n {
		c := s.part(w, i)
		again := ask{c.Name, acquire, c.Attempt, 0, c.NowMs}
		if c.Attempt == 0 {
			again = ask{c.Name, renew, c.Runs, 1 << 20, c.NowMs}
		}
		if !c.Frozen && w.Len(s.asks(i)) == 0 && (c.Attempt != 0 || s.scope.Mutant == RenewsForEver && c.Told) {
			w.Push(s.asks(i), w.Event(again))
		}
	}
}

// arrive hands a request to the store, or an answer to its candidate.
func (s *system) arrive(w *model.World, ref model.Ref) {
	switch e := w.Value(ref).(type) {
	case ask:
		w.Say("store hears %+v", e)
		for _, effect := range w.Give(s.store(), ref) {
			w.Push(s.answers(int(e.From)-1), effect.Ref)
		}
	case answer:
		i := int(e.From) - 1
		if s.part(w, i).Frozen {
			w.Push(s.answers(i), ref)
			return
		}
		w.Say("%d hears %+v", e.From, e)
		s.give(w, i, ref)
	}
}

func (s *system) arriveLate(w *model.World, at int) {
	var ref model.Ref
	for k := range w.Len(s.late()) {
		if r := w.Pop(s.late()); k == at {
			ref = r
		} else {
			w.Push(s.late(), r)
		}
	}
	s.arrive(w, ref)
}

// give gives an event to a candidate and carries out what it wants done.
func (s *system) give(w *model.World, i int, event model.Ref) {
	for _, e := range w.Give(i, event) {
		switch v := e.Value.(type) {
		case ask:
			w.Push(s.asks(i), e.Ref)
		case led:
			w.Give(s.past(), e.Ref)
		case note:
			w.Say("  %d: %s", i+1, v)
		}
	}
}

func (s *system) rest(w *model.World) {
	for n := range numbers {
		w.SetNumber(s.number(n), 0)
	}
	w.Clear(s.late())
	for i := range s.n {
		w.Give(i, w.Event(freeze{false}))
	}
}

// settle takes the next step of a system in which nothing goes wrong; functions
// that were told to end never do.
func (s *system) settle(w *model.World) bool {
	for i := range s.n {
		c := s.part(w, i)
		switch {
		case s.due(c):
			s.do(w, moveTick|model.Move(i))
			return false
		case w.Len(s.asks(i)) > 0:
			s.arrive(w, w.Pop(s.asks(i)))
			return false
		case w.Len(s.answers(i)) > 0:
			s.arrive(w, w.Pop(s.answers(i)))
			return false
		}
	}
	stuck := 0
	for i := range s.n {
		c := s.part(w, i)
		if s.believes(c) && !c.Told {
			return true
		}
		if c.Runs != 0 {
			stuck++
		}
	}
	if stuck == s.n {
		return true // nobody is left who could lead
	}
	s.pass(w)
	return false
}
