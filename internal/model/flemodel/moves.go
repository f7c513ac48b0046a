package flemodel

import (
	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/model"
	"github.com/conclave-project/conclave/internal/quorum"
)

// task is an entry of the agenda of the bounded schedule: a message from one server to
// another, or a server that must begin an election.
type task struct{ From, To int }

func (s *system) part(w *model.World, i int) *server { return w.Part(i).(*server) }

// moves lists the moves that are possible.
func (s *system) moves(w *model.World, moves []model.Move) []model.Move {
	if s.scope.Delays >= 0 {
		if w.Len(s.agenda()) > 0 {
			moves = append(moves, moveNext)
			if w.Number(s.number(delays)) > 0 && w.Len(s.agenda()) > 1 {
				moves = append(moves, moveDelay)
			}
		}
		for k := range w.Len(s.held()) {
			moves = append(moves, pair(moveRelease, k, 0))
		}
	} else {
		moves = s.allOrders(w, moves)
	}
	return s.faults(w, moves)
}

// pair is a move that concerns two servers.
func pair(kind model.Move, from, to int) model.Move {
	return kind | model.Move(from)<<8 | model.Move(to)
}

func (s *system) allOrders(w *model.World, moves []model.Move) []model.Move {
	for i := range s.n {
		if p := s.part(w, i); p.Machine != nil && p.Wants && (!p.Started || w.Number(s.number(looks)) > 0) {
			moves = append(moves, pair(moveLook, i, 0))
		}
		for j := range s.n {
			if w.PartRef(s.link(i, j)) != 0 {
				moves = append(moves, pair(moveDeliver, i, j))
			}
		}
	}
	return moves
}

// faults lists the faults that are possible.
func (s *system) faults(w *model.World, moves []model.Move) []model.Move {
	left := func(number int) bool { return w.Number(s.number(number)) > 0 }
	for i := range s.n {
		p := s.part(w, i)
		switch {
		case p.Machine == nil:
			moves = append(moves, pair(moveRestart, i, 0))
			continue
		case left(crashes):
			moves = append(moves, pair(moveCrash, i, 0))
		}
		if _, wakes := p.Machine.WakeMs(); wakes && left(ticks) {
			moves = append(moves, pair(moveTick, i, 0))
		}
		if s.scope.Crashes > 0 && s.orphan(w, p) && left(looks) {
			moves = append(moves, pair(moveNotice, i, 0))
		}
		for j := range s.n {
			if last := w.PartRef(s.last(i, j)); last != 0 && last != w.PartRef(s.link(i, j)) && left(repeats) {
				moves = append(moves, pair(moveRepeat, i, j))
			}
			if i != j && p.Started && left(forged) {
				moves = append(moves, pair(moveForge, j, i))
			}
		}
	}
	return moves
}

// orphan reports whether a server follows one that is down.
func (s *system) orphan(w *model.World, p *server) bool {
	if p.Machine == nil || p.Machine.State() != fle.Following || p.Wants {
		return false
	}
	return s.part(w, int(p.Machine.Vote().Leader)).Machine == nil
}

// do carries out a move.
func (s *system) do(w *model.World, m model.Move) {
	from, to := int(m>>8&0xff), int(m&0xff)
	switch m & kindOf {
	case moveLook:
		s.look(w, from)
	case moveDeliver:
		s.deliver(w, from, to)
	case moveRepeat:
		w.Spend(s.number(repeats))
		w.Say("%d -> %d connects again and repeats its last message", from, to)
		s.put(w, from, to, w.PartRef(s.last(from, to)))
	case moveTick:
		w.Spend(s.number(ticks))
		s.tick(w, from)
	case moveCrash:
		s.crash(w, from)
	case moveRestart:
		w.Say("%d starts again", from)
		s.give(w, from, w.Event(restart{}))
		s.plan(w, task{from, from})
	case moveNotice:
		w.Say("%d finds its leader gone", from)
		s.give(w, from, w.Event(notice{}))
		s.plan(w, task{from, from})
	case moveForge:
		s.forge(w, from, to)
	case moveNext:
		s.carryOut(w, w.Value(w.Pop(s.agenda())).(task))
	case moveDelay:
		w.Spend(s.number(delays))
		w.Push(s.held(), w.Pop(s.agenda()))
	case moveRelease:
		s.carryOut(w, w.Value(s.take(w, s.held(), from)).(task))
	}
}

// take removes a value from a queue.
func (s *system) take(w *model.World, slot, at int) (taken model.Ref) {
	for k := range w.Len(slot) {
		if ref := w.Pop(slot); k == at {
			taken = ref
		} else {
			w.Push(slot, ref)
		}
	}
	return taken
}

// carryOut carries out a task.
func (s *system) carryOut(w *model.World, t task) {
	switch {
	case t.From != t.To:
		s.deliver(w, t.From, t.To)
	case s.part(w, t.From).Wants:
		s.look(w, t.From)
	}
}

// plan adds a task to the agenda unless it is there already. The schedule of every order
// has no agenda.
func (s *system) plan(w *model.World, t task) {
	if s.scope.Delays < 0 {
		return
	}
	ref := w.Event(t)
	for _, queue := range []int{s.agenda(), s.held()} {
		for i := range w.Len(queue) {
			if w.At(queue, i) == ref {
				return
			}
		}
	}
	w.Push(s.agenda(), ref)
}

func (s *system) look(w *model.World, i int) {
	p := s.part(w, i)
	if p.Started && !w.Spend(s.number(looks)) {
		return // nothing changes: the fair schedule can continue from this state, too
	}
	w.Command("look %d %d.%d %d", i, p.Begin.Zxid.Epoch(), p.Begin.Zxid.Counter(), p.Begin.Epoch)
	w.Say("%d looks", i)
	s.give(w, i, w.Event(look{}))
}

func (s *system) deliver(w *model.World, from, to int) {
	ref := w.PartRef(s.link(from, to))
	if ref == 0 {
		return
	}
	w.PutRef(s.link(from, to), 0)
	s.receive(w, to, ref)
}

// receive gives a packet to a server, if it is up.
func (s *system) receive(w *model.World, to int, ref model.Ref) {
	e := w.Value(ref).(packet)
	w.Say("%d learns of %d: %v", to, e.From, e.Notification)
	if s.part(w, to).Machine == nil {
		return
	}
	v := e.Vote
	w.Command("receive %d %d %v %d %d.%d %d %d", to, e.From, e.State, v.Leader, v.Zxid.Epoch(), v.Zxid.Counter(), v.Epoch, e.Round)
	s.give(w, to, ref)
}

func (s *system) tick(w *model.World, i int) {
	p := s.part(w, i)
	wakeMs, ok := p.Machine.WakeMs()
	if !ok {
		return
	}
	w.Say("%d: its resend pause ends", i)
	w.Command("wait %d", max(0, wakeMs-p.NowMs))
	s.give(w, i, w.Event(tick{max(0, wakeMs-p.NowMs)}))
}

func (s *system) crash(w *model.World, i int) {
	w.Spend(s.number(crashes))
	w.Say("%d dies", i)
	w.Command("crash %d", i)
	s.give(w, i, w.Event(crash{}))
	for j := range s.n {
		w.PutRef(s.link(j, i), 0)
		w.PutRef(s.last(i, j), 0)
	}
}

// forge lets a server receive a notification that no server can have sent.
func (s *system) forge(w *model.World, from, to int) {
	w.Spend(s.number(forged))
	p := s.part(w, from)
	n := fle.Notification{State: fle.Looking, Vote: fle.Vote{Leader: p.ID, Zxid: p.Begin.Zxid, Epoch: p.Begin.Epoch},
		Round: 1 << 62, Version: 2}
	s.receive(w, to, w.Event(packet{p.ID, quorum.ID(to), n}))
}

// give gives an event to a server and carries out the effects.
func (s *system) give(w *model.World, i int, event model.Ref) {
	for _, e := range w.Give(i, event) {
		send, ok := e.Value.(packet)
		if !ok {
			w.Say("  %d: %v", i, e.Value)
			if _, doubts := e.Value.(fle.Doubt); doubts {
				s.plan(w, task{i, i})
			}
			continue
		}
		w.Say("  %d -> %d %v", i, send.To, send.Notification)
		s.put(w, i, int(send.To), e.Ref)
	}
}

// put puts a message on a link, replacing the one that waits there.
func (s *system) put(w *model.World, from, to int, ref model.Ref) {
	if s.scope.Repeats > 0 {
		w.PutRef(s.last(from, to), ref)
	}
	if s.part(w, to).Machine == nil {
		return
	}
	w.PutRef(s.link(from, to), ref)
	s.plan(w, task{from, to})
}

// check checks a state (fle-F1).
func (s *system) check(w *model.World) {
	if s.scope.Crashes > 0 {
		return // a restarted machine begins at round 1 again, and fle-F1 is about one life
	}
	votes := map[decided]quorum.IDs{}
	for i := range s.n {
		for round, d := range s.part(w, i).Decided {
			key := decided{d.Leader<<32 | quorum.ID(round)}
			ids := votes[key]
			ids.Add(quorum.ID(i))
			votes[key] = ids
		}
	}
	set := quorum.NewMajority(s.participants()...)
	for key, ids := range votes {
		for other, others := range votes {
			if key != other && key.Leader&0xffffffff == other.Leader&0xffffffff && s.scope.Change == nil &&
				set.Enough(ids) && set.Enough(others) {
				w.Fail("F1: in round %d quorums decided for %d and for %d", key.Leader&0xffffffff, min(key.Leader, other.Leader)>>32, max(key.Leader, other.Leader)>>32)
			}
		}
	}
}
