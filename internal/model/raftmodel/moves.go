package raftmodel

import (
	"github.com/conclave-project/conclave/internal/model"
)

// The kinds of moves; the rest of a Move says which members.
const (
	moveDeliver model.Move = iota << 16 // sender, receiver: their oldest message
	moveRepeat
	moveLate
	moveLose
	moveArrive // index of the late message
	moveTick
	movePass
	moveFuse
	moveRestart
	moveTransfer
	moveForget
	moveLoseDisk
	moveMeet
	moveFreeze
	moveThaw
	moveCut
	moveHeal
)

const kindOf = ^model.Move(0xffff)

func move(kind model.Move, from, to, at int) model.Move {
	return kind | model.Move(from)<<12 | model.Move(to)<<8 | model.Move(at)
}

// moves lists the moves that are possible.
func (s *system) moves(w *model.World, moves []model.Move) []model.Move {
	left := func(number int) bool { return w.Number(s.number(number)) > 0 }
	for i := range s.n {
		if p := s.part(w, i); p.Machine != nil && p.Machine.Status().Term > s.scope.Terms {
			return moves // beyond the scope
		}
	}
	busy := false
	for i := range s.n {
		before := len(moves)
		if p := s.part(w, i); p.up() && !p.Frozen && s.due(p) {
			moves = append(moves, move(moveTick, i, 0, 0))
		}
		for j := range s.n {
			if w.Len(s.queue(j, i)) > 0 && !s.part(w, i).Frozen {
				moves = s.messageMoves(moves, j, i, left)
			}
		}
		busy = busy || len(moves) > before
		moves = s.memberMoves(w, moves, i, left)
	}
	for at := range w.Len(s.late()) {
		moves = append(moves, move(moveArrive, 0, 0, at))
	}
	if left(steps) && !busy {
		moves = append(moves, movePass)
	}
	return moves
}

// messageMoves lists what may happen to the oldest message from one member to another.
func (s *system) messageMoves(moves []model.Move, from, to int, left func(int) bool) []model.Move {
	moves = append(moves, move(moveDeliver, from, to, 0))
	for _, fault := range [...]struct {
		kind   model.Move
		number int
	}{{moveRepeat, repeats}, {moveLate, lates}, {moveLose, losses}} {
		if left(fault.number) {
			moves = append(moves, move(fault.kind, from, to, 0))
		}
	}
	return moves
}

func (s *system) memberMoves(w *model.World, moves []model.Move, i int, left func(int) bool) []model.Move {
	p := s.part(w, i)
	if !p.up() {
		return append(moves, move(moveRestart, i, 0, 0))
	}
	for j := range s.n {
		if s.canMeet(w, i, j) {
			moves = append(moves, move(moveMeet, i, j, 0))
		}
	}
	if left(loses) && p.Disk.Term > 0 { // a member that has not voted has nothing to forget
		moves = append(moves, move(moveLoseDisk, i, 0, 0))
	}
	switch {
	case p.Frozen:
		moves = append(moves, move(moveThaw, i, 0, 0))
	case left(freezes):
		moves = append(moves, move(moveFreeze, i, 0, 0))
	}
	switch {
	case p.Cut:
		moves = append(moves, move(moveHeal, i, 0, 0))
	case left(cuts):
		moves = append(moves, move(moveCut, i, 0, 0))
	}
	if left(crashes) && p.Fuse == 0 && p.Machine != nil {
		for effects := range 4 {
			moves = append(moves, move(moveFuse, i, 0, effects))
		}
	}
	if left(collapses) && s.idle(p) {
		moves = append(moves, move(moveForget, i, 0, 0))
	}
	if left(transfers) && p.Leads {
		for to := range s.n {
			moves = append(moves, move(moveTransfer, i, to, 0))
		}
	}
	return moves
}

// idle reports whether a member may forget the election.
func (s *system) idle(p *member) bool {
	if p.Machine == nil {
		return false
	}
	status := p.Machine.Status()
	return !p.Wants && !p.Frozen && p.Disk.Term > 0 && status.Leader == "" && p.NowMs >= status.PromisedMs && p.NowMs >= p.TermMs+2*leaseMs
}

// due reports whether a member has something to do according to its clock.
func (s *system) due(p *member) bool {
	if p.Entry != nil {
		wakeMs, wakes := p.Entry.WakeMs()
		return wakes && wakeMs <= p.NowMs
	}
	wakeMs, wakes := p.Machine.WakeMs()
	return wakes && wakeMs <= p.NowMs
}

// do carries out a move.
func (s *system) do(w *model.World, m model.Move) {
	from, to, at := int(m>>12&15), int(m>>8&15), int(m&0xff)
	switch m & kindOf {
	case moveDeliver:
		s.receive(w, w.Pop(s.queue(from, to)))
	case moveRepeat:
		w.Spend(s.number(repeats))
		ref := w.Pop(s.queue(from, to))
		w.Push(s.late(), ref)
		s.receive(w, ref)
	case moveLate:
		w.Spend(s.number(lates))
		w.Push(s.late(), w.Pop(s.queue(from, to)))
	case moveLose:
		w.Spend(s.number(losses))
		w.Say("%s -x %s %v", id(from), id(to), w.Value(w.Pop(s.queue(from, to))).(packet).Message)
	case moveArrive:
		s.arrive(w, at)
	case moveFreeze:
		w.Spend(s.number(freezes))
		s.freeze(w, from, true)
	case moveThaw:
		s.freeze(w, from, false)
	case moveCut:
		w.Spend(s.number(cuts))
		s.cut(w, from, true)
	case moveHeal:
		s.cut(w, from, false)
	case moveTick:
		w.Say("%s: its time has come", id(from))
		s.give(w, from, w.Event(tick{}))
	case movePass:
		w.Spend(s.number(steps))
		s.pass(w)
	case moveFuse:
		w.Spend(s.number(crashes))
		w.Say("%s will die after %d effects", id(from), at)
		s.give(w, from, w.Event(fuse{at}))
	case moveLoseDisk:
		w.Spend(s.number(loses))
		w.Say("%s dies, and comes back without its disk", id(from))
		s.give(w, from, w.Event(lose{}))
		s.lost(w, from)
	case moveMeet:
		s.connect(w, from, to)
	case moveRestart:
		s.lost(w, from)
		w.Say("%s starts again", id(from))
		s.give(w, from, w.Event(restart{}))
	case moveForget:
		w.Spend(s.number(collapses))
		w.Say("%s forgets the election", id(from))
		s.give(w, from, w.Event(forget{}))
	case moveTransfer:
		w.Spend(s.number(transfers))
		w.Say("%s is asked to step down in favour of %s", id(from), id(to))
		s.give(w, from, w.Event(transfer{id(to)}))
	}
}

func (s *system) pass(w *model.World) {
	w.Say("time passes")
	for i := range s.n {
		w.Give(i, w.Event(pass{}))
	}
}

// arrive delivers a late message.
func (s *system) arrive(w *model.World, at int) {
	var ref model.Ref
	for k := range w.Len(s.late()) {
		if r := w.Pop(s.late()); k == at {
			ref = r
		} else {
			w.Push(s.late(), r)
		}
	}
	s.receive(w, ref)
}

func (s *system) freeze(w *model.World, i int, frozen bool) {
	w.Say("%s stalls: %v", id(i), frozen)
	w.Give(i, w.Event(freeze{frozen}))
}

func (s *system) cut(w *model.World, i int, is bool) {
	w.Say("%s is partitioned: %v", id(i), is)
	w.Give(i, w.Event(cut{is}))
	s.lost(w, i)
}

// receive gives a message to a member that is up. A stalled member receives it when it
// continues.
func (s *system) receive(w *model.World, ref model.Ref) {
	e := w.Value(ref).(packet)
	to := number(e.To)
	switch p := s.part(w, to); {
	case !p.up(), p.Machine == nil && e.Question == nil, p.Life != e.ToLife, p.Met[e.From] > e.FromLife:
	case p.Frozen:
		w.Push(s.queue(number(e.From), to), ref)
	default:
		w.Say("%s -> %s %v", e.From, e.To, e)
		s.give(w, to, ref)
	}
}

// give gives an event to a member and carries out the effects.
func (s *system) give(w *model.World, i int, event model.Ref) {
	for _, e := range w.Give(i, event) {
		switch v := e.Value.(type) {
		case packet:
			w.Say("  %s -> %s %v", v.From, v.To, v)
			if to := number(v.To); !s.part(w, i).Cut && !s.part(w, to).Cut && s.part(w, to).up() {
				w.Push(s.queue(i, to), e.Ref)
			}
		case led:
			w.Say("  %s: LEAD term=%d until %d", v.ID, v.Term, s.part(w, i).UntilMs)
			w.Give(s.past(), e.Ref)
		case note:
			w.Say("  %s: %s", id(i), v)
		}
	}
}

// rest removes all faults. Dead members stay dead if the others are a quorum.
func (s *system) rest(w *model.World) {
	for n := range numbers {
		w.SetNumber(s.number(n), 0)
	}
	up, wants := 0, false
	w.Clear(s.late())
	for i := range s.n {
		w.Give(i, w.Event(freeze{Frozen: false}))
		w.Give(i, w.Event(cut{Cut: false}))
		w.Give(i, w.Event(fuse{Effects: -1}))
	}
	for i := range s.n {
		if p := s.part(w, i); p.Machine != nil {
			up++
			wants = wants || p.Wants
		}
	}
	for i := range s.n {
		if !s.part(w, i).up() && (up <= s.n/2 || !wants) {
			s.do(w, move(moveRestart, i, 0, 0))
		}
		w.Give(i, w.Event(spread{uint64(i+1) * 0x9e3779b97f4a7c15}))
	}
}

// converge takes the next step of a system without faults: messages in turn, then members
// that are due, then time.
func (s *system) converge(w *model.World) bool {
	for i := range s.n {
		for j := range s.n {
			if s.canMeet(w, i, j) {
				s.connect(w, i, j)
				return false
			}
		}
	}
	queues := s.n * s.n
	first := w.Number(s.number(cursor))
	for k := range queues {
		q := (first + k) % queues
		if from, to := q/s.n, q%s.n; w.Len(s.queue(from, to)) > 0 {
			w.SetNumber(s.number(cursor), (q+1)%queues)
			s.receive(w, w.Pop(s.queue(from, to)))
			return false
		}
	}
	w.SetNumber(s.number(cursor), 0)
	for i := range s.n {
		if p := s.part(w, i); p.up() && s.due(p) {
			s.do(w, move(moveTick, i, 0, 0))
			return false
		}
	}
	for i := range s.n {
		if s.part(w, i).considersItselfLeader() {
			return true
		}
	}
	s.pass(w)
	return false
}
