package electormodel

import (
	"github.com/conclave-project/conclave/internal/claims"
	"github.com/conclave-project/conclave/internal/model"
)

// The kinds of moves; the rest of a Move is a candidate, or the index of a late message.
const (
	moveAsk model.Move = iota << 16
	moveAnswer
	moveSlowAsk // arrives at any later time, and its caller waits
	moveLateAsk // arrives when nobody waits for it any longer
	moveLateAnswer
	moveLoseAsk
	moveLoseAnswer
	moveArrive
	moveTick
	moveWake
	moveTell     // the watch delivers the current record
	moveTellLate // the watch delivers an earlier record
	movePass
	moveFreeze
	moveThaw
	moveReturn
	moveResign
	moveResignStale
	moveFail // to a copy; the last number means no copy
	movePart // a bit set of the candidates that go astray
	moveHeal
)

const kindOf = ^model.Move(0xffff)

// moves lists the moves that are possible.
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
		for k := range c.Calls {
			add(moveWake, i|k<<8, !c.Frozen && s.over(w, c, &c.Calls[k]))
			waits := !c.Frozen && c.Calls[k].Kind == claims.Wait
			add(moveTell, i|k<<8, waits && s.stored(w).at(c.Name).Version != c.Calls[k].Version)
			add(moveTellLate, i|k<<8, waits && left(lates) && len(s.stored(w).at(c.Name).Copies) > 0)
		}
		asks, answers := w.Len(s.asks(i)) > 0, w.Len(s.answers(i)) > 0 && !c.Frozen
		add(moveAsk, i, asks)
		add(moveAnswer, i, answers)
		add(moveSlowAsk, i, asks && left(lates))
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
		add(moveResignStale, i, !c.Frozen && c.Runs != 0 && !c.Told && c.Last != 0 && left(resigns))
	}
	for at := range w.Len(s.late()) {
		add(moveArrive, at, true)
	}
	store := s.stored(w)
	for k := range len(store.Sides[0].Copies) + 1 {
		add(moveFail, k, left(failovers))
	}
	for astray := range 1<<s.n - 1 { // if all candidates are astray, it is as if their answers were lost
		add(movePart, astray, astray > 0 && len(store.Sides) == 1 && left(parts))
	}
	add(moveHeal, 0, len(store.Sides) > 1)
	add(movePass, 0, !busy && left(steps))
	return moves
}

func (s *system) stored(w *model.World) *store { return w.Part(s.store()).(*store) }

func (s *system) due(c *candidate) bool {
	wakeMs, wakes := c.Machine.WakeMs()
	return wakes && wakeMs <= c.NowMs
}

// over reports whether a call's wait is over.
func (s *system) over(w *model.World, c *candidate, r *running) bool {
	switch r.Kind {
	case claims.Pause:
		return r.Until.Millis() <= c.NowMs
	case claims.Wait:
		return r.Until.Millis() <= c.NowMs || s.stored(w).at(c.Name).Version != r.Version
	}
	return false
}

// do carries out a move.
func (s *system) do(w *model.World, m model.Move) {
	who := int(m & 0xff)
	switch m & kindOf {
	case moveAsk:
		s.arrive(w, w.Pop(s.asks(who)))
	case moveAnswer:
		s.arrive(w, w.Pop(s.answers(who)))
	case moveSlowAsk:
		w.Spend(s.number(lates))
		w.Push(s.late(), w.Pop(s.asks(who)))
	case moveLateAsk:
		w.Spend(s.number(lates))
		s.giveUp(w, w.Pop(s.asks(who)))
	case moveLateAnswer:
		w.Spend(s.number(lates))
		w.Push(s.late(), w.Pop(s.answers(who)))
	case moveLoseAsk:
		w.Spend(s.number(losses))
		s.lose(w, w.Pop(s.asks(who)))
	case moveLoseAnswer:
		w.Spend(s.number(losses))
		s.lose(w, w.Pop(s.answers(who)))
	case moveArrive:
		s.arriveLate(w, who)
	case moveTick:
		w.Say("%d: its time has come", who+1)
		s.give(w, who, w.Event(tick{}))
	case moveWake:
		c := s.part(w, who).Calls[m>>8&0xff].call
		w.Say("%d looks again", who+1)
		s.give(w, who, w.Event(wake{c}))
	case moveTell, moveTellLate:
		s.tell(w, who, int(m>>8&0xff), m&kindOf == moveTellLate)
	case movePass:
		w.Spend(s.number(steps))
		s.pass(w)
	default:
		s.doOthers(w, m, who)
	}
}

// tell lets a candidate's watch deliver the current record, or the oldest copy.
func (s *system) tell(w *model.World, i, k int, late bool) {
	c := s.part(w, i)
	side := s.stored(w).at(c.Name)
	brought := copied{side.Record, side.Version}
	if late {
		w.Spend(s.number(lates))
		brought = side.Copies[0]
	}
	a := answer{To: c.Name, Call: c.Calls[k].call,
		Answer: claims.Answer{Kind: claims.Told, Record: brought.Record, Version: brought.Version}}
	w.Say("%d is told by its watch: %s", c.Name, tellAnswer(a))
	s.give(w, i, w.Intern(a))
}

// doOthers carries out the moves of people, hosts and the store.
func (s *system) doOthers(w *model.World, m model.Move, who int) {
	switch m & kindOf {
	case moveFreeze:
		w.Spend(s.number(freezes))
		w.Say("%d stalls", who+1)
		s.give(w, who, w.Event(freeze{Frozen: true}))
	case moveThaw:
		w.Say("%d goes on", who+1)
		s.give(w, who, w.Event(freeze{Frozen: false}))
	case moveReturn:
		w.Say("%d: its function ends", who+1)
		s.give(w, who, w.Event(returned{}))
	case moveResign:
		w.Spend(s.number(resigns))
		w.Say("%d is asked to resign", who+1)
		s.give(w, who, w.Event(resign{}))
	case moveResignStale:
		w.Spend(s.number(resigns))
		w.Say("%d is asked to resign from its last leadership", who+1)
		s.give(w, who, w.Event(resign{Stale: true}))
	case moveFail:
		w.Spend(s.number(failovers))
		if who == len(s.stored(w).Sides[0].Copies) {
			who = -1
		}
		w.Say("the store fails over to copy %d", who)
		w.Give(s.store(), w.Event(fail{who}))
		w.Say("  it has %+v", s.stored(w).Sides[0].Record)
	case movePart:
		w.Spend(s.number(parts))
		var astray []name
		for i := range s.n {
			if who>>i&1 == 1 {
				astray = append(astray, name(i+1))
			}
		}
		w.Say("the store has two sides: %v are on the one that confirms nothing", astray)
		w.Give(s.store(), w.Intern(part{astray}))
	case moveHeal:
		w.Say("the store is one again")
		w.Give(s.store(), w.Event(heal{}))
	}
}

// pass lets a step of time pass.
func (s *system) pass(w *model.World) {
	w.Say("time passes")
	for i := range s.n {
		s.give(w, i, w.Event(pass{}))
	}
	w.Give(s.store(), w.Event(pass{}))
}

// arrive delivers a request to the store, or an answer to its candidate.
func (s *system) arrive(w *model.World, ref model.Ref) {
	switch e := w.Value(ref).(type) {
	case ask:
		w.Say("store receives from %d: %s", e.From, tell(e))
		for _, effect := range w.Give(s.store(), ref) {
			w.Push(s.answers(int(e.From)-1), effect.Ref)
		}
	case answer:
		i := int(e.To) - 1
		if s.part(w, i).Frozen {
			w.Push(s.answers(i), ref)
			return
		}
		w.Say("%d receives: %s", e.To, tellAnswer(e))
		s.give(w, i, ref)
	}
}

// giveUp lets a request arrive after its caller has given up.
func (s *system) giveUp(w *model.World, ref model.Ref) {
	e := w.Value(ref).(ask)
	s.lose(w, ref)
	e.Mute = true
	w.Push(s.late(), w.Intern(e))
}

// lose tells a candidate that there was no answer in time.
func (s *system) lose(w *model.World, ref model.Ref) {
	lost := answer{}
	switch e := w.Value(ref).(type) {
	case ask:
		lost.To, lost.Call = e.From, e.Call
		w.Say("without an answer: %s of %d", tell(e), e.From)
	case answer:
		lost.To, lost.Call = e.To, e.Call
		w.Say("lost on its way to %d: %s", e.To, tellAnswer(e))
	}
	w.Push(s.answers(int(lost.To)-1), w.Intern(lost))
}

func (s *system) arriveLate(w *model.World, at int) {
	s.arrive(w, s.takeLate(w, at))
}

func (s *system) takeLate(w *model.World, at int) (ref model.Ref) {
	for k := range w.Len(s.late()) {
		if r := w.Pop(s.late()); k == at {
			ref = r
		} else {
			w.Push(s.late(), r)
		}
	}
	return ref
}

// give gives an event to a candidate and carries out the effects.
func (s *system) give(w *model.World, i int, event model.Ref) {
	for _, e := range w.Give(i, event) {
		switch v := e.Value.(type) {
		case ask:
			w.Push(s.asks(i), e.Ref)
		case led, granted:
			w.Give(s.past(), e.Ref)
		case note:
			w.Say("  %d: %s", i+1, v)
		}
	}
}
