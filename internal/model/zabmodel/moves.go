package zabmodel

import (
	"github.com/conclave-project/conclave/internal/model"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/zab"
)

// The kinds of moves; the rest of a Move says which server or queue.
const (
	moveDisk    model.Move = iota << 16
	moveDeliver            // number of the queue
	moveConnect            // the learner
	moveElect              // the leader, and a bit set of the servers that follow it
	movePropose
	moveReconfig
	moveCrash // the server, and how many operations its disk has completed
	moveRestart
	moveReset // the connection, by its first queue
	moveTimeout
	moveSlow
)

const kindOf = ^model.Move(0xffff)

func (s *system) part(w *model.World, i int) *server { return w.Part(i).(*server) }

// moves lists the moves that are possible.
func (s *system) moves(w *model.World, moves []model.Move) []model.Move {
	left := func(number int) bool { return w.Number(s.number(number)) > 0 }
	for i := range s.n {
		p := s.part(w, i)
		if len(p.Disk.Pending) == 0 || p.Slow {
			continue
		}
		moves = append(moves, moveDisk|model.Move(i))
		if left(crashes) {
			moves = crashMoves(moves, p)
		}
		if left(slows) {
			moves = append(moves, moveSlow|model.Move(i))
		}
		return moves // nothing else happens before the disk has worked
	}
	for q := range 4 * s.n * s.n {
		if w.Len(s.queue(0, 0, 0, 0)+q) > 0 {
			moves = append(moves, moveDeliver|model.Move(q))
		}
	}
	for i := range s.n {
		moves = s.serverMoves(w, moves, i, left)
	}
	if left(elections) {
		moves = s.electionMoves(w, moves, left(wrongs))
	}
	if left(resets) {
		for q := 0; q < 4*s.n*s.n; q += 2 {
			if learner, leader, gen, _ := s.place(q); s.open(w, learner, leader, gen) {
				moves = append(moves, moveReset|model.Move(q))
			}
		}
	}
	return moves
}

// crashMoves lists the crashes of a server, one for each number of completed disk
// operations.
func crashMoves(moves []model.Move, p *server) []model.Move {
	for done := range len(p.Disk.Pending) + 1 {
		moves = append(moves, moveCrash|model.Move(done)<<8|model.Move(p.ID-1))
	}
	return moves
}

func (s *system) serverMoves(w *model.World, moves []model.Move, i int, left func(int) bool) []model.Move {
	p, who := s.part(w, i), model.Move(i)
	if p.Peer == nil {
		return append(moves, moveRestart|who)
	}
	if len(p.Disk.Pending) > 0 {
		moves = append(moves, moveDisk|who)
	}
	if p.Dialing != 0 && s.dialGen(w, i, int(p.Dialing)-1) >= 0 {
		moves = append(moves, moveConnect|who)
	}
	if leads := p.Serving && p.Peer.State() == zab.Leading; leads {
		if left(txns) {
			moves = append(moves, movePropose|who)
		}
		if left(reconfigs) && p.Next == 0 && p.Disk.InForce == 0 && p.Peer.InStep(quorum.NewMajority(s.scope.New...)) {
			moves = append(moves, moveReconfig|who)
		}
	}
	if left(crashes) {
		moves = crashMoves(moves, p)
	}
	if left(timeouts) && p.Peer.State() != zab.Looking {
		moves = append(moves, moveTimeout|who)
	}
	return moves
}

// electionMoves lists the possible outcomes of elections: a leader, and the looking servers
// that accept it. The leader is one of them or leads already; in a wrong outcome it is
// neither.
func (s *system) electionMoves(w *model.World, moves []model.Move, wrong bool) []model.Move {
	looking := 0
	for i := range s.n {
		if p := s.part(w, i); p.Peer != nil && p.Peer.Quiet() {
			looking |= 1 << i
		}
	}
	for j := range s.n {
		p := s.part(w, j)
		leads := p.Peer != nil && p.Peer.State() == zab.Leading
		for set := 1; set < 1<<s.n; set++ {
			if set&^looking == 0 && (set>>j&1 == 1 || leads || wrong) {
				moves = append(moves, moveElect|model.Move(j)<<8|model.Move(set))
			}
		}
	}
	return moves
}

// place returns the connection and direction of a queue.
func (s *system) place(q int) (learner, leader, gen, way int) {
	return q / 4 / s.n, q / 4 % s.n, q / 2 % 2, q % 2
}

// open reports whether a side of a connection is open, or a frame is on its way.
func (s *system) open(w *model.World, learner, leader, gen int) bool {
	l, m := s.part(w, learner), s.part(w, leader)
	return l.Links[outgoing(m.ID, gen)] || m.Links[incoming(l.ID, gen)] ||
		w.Len(s.queue(learner, leader, gen, up)) > 0 || w.Len(s.queue(learner, leader, gen, down)) > 0
}

// dialGen returns the generation of a new connection, -1 if both are in use.
func (s *system) dialGen(w *model.World, learner, leader int) int {
	for gen := range 2 {
		if !s.open(w, learner, leader, gen) {
			return gen
		}
	}
	return -1
}

// do carries out a move.
func (s *system) do(w *model.World, m model.Move) {
	who, more := int(m&0xff), int(m>>8&0xff)
	switch m & kindOf {
	case moveDisk:
		w.Say("%d: its disk works", who+1)
		s.give(w, who, w.Event(diskWorks{}))
	case moveDeliver:
		s.deliver(w, who|more<<8)
	case moveConnect:
		s.connect(w, who)
	case moveElect:
		w.Spend(s.number(elections))
		if p := s.part(w, more); who>>more&1 == 0 && (p.Peer == nil || p.Peer.State() != zab.Leading) {
			w.Spend(s.number(wrongs))
		}
		s.elect(w, more, who)
	case movePropose:
		number := w.Number(s.number(txns))
		w.Spend(s.number(txns))
		w.Say("%d proposes transaction %d", who+1, number)
		s.give(w, who, w.Event(propose{number}))
	case moveReconfig:
		w.Spend(s.number(reconfigs))
		w.Say("%d proposes the reconfig", who+1)
		s.give(w, who, w.Event(reconfig{}))
	case moveCrash:
		w.Spend(s.number(crashes))
		s.crash(w, who, more)
	case moveRestart:
		w.Say("%d starts again", who+1)
		s.give(w, who, w.Event(boot{}))
	case moveReset:
		w.Spend(s.number(resets))
		s.reset(w, who|more<<8)
	case moveTimeout:
		w.Spend(s.number(timeouts))
		w.Say("%d stalls for %d ms", who+1, jumpMs)
		s.give(w, who, w.Event(jump{}))
	case moveSlow:
		w.Spend(s.number(slows))
		w.Say("%d: its disk is slow", who+1)
		s.give(w, who, w.Event(diskSlow{}))
	}
}

func (s *system) elect(w *model.World, leader, set int) {
	id := quorum.ID(leader + 1)
	vote := elected{Leader: id}
	if p := s.part(w, leader); p.Peer != nil {
		_, vote.Epoch = p.Peer.Epochs()
		vote.Last = p.Peer.Last()
	}
	order := []int{leader}
	for i := range s.n {
		if i != leader {
			order = append(order, i)
		}
	}
	for _, i := range order {
		if set>>i&1 == 1 {
			w.Say("%d: elected %d", i+1, id)
			s.give(w, i, w.Event(vote))
		}
	}
}

// connect makes the connection that a learner requested.
func (s *system) connect(w *model.World, learner int) {
	l := s.part(w, learner)
	leader := int(l.Dialing) - 1
	m := s.part(w, leader)
	if m.Peer == nil || leader == learner {
		w.Say("%d cannot connect to %d", l.ID, m.ID)
		s.give(w, learner, w.Event(dialFailed{}))
		return
	}
	gen := s.dialGen(w, learner, leader)
	w.Say("%d connects to %d", l.ID, m.ID)
	s.give(w, leader, w.Event(linkUp{Link: incoming(l.ID, gen)}))
	s.give(w, learner, w.Event(linkUp{Link: outgoing(m.ID, gen), Outgoing: true}))
}

// deliver delivers the oldest frame of a queue.
func (s *system) deliver(w *model.World, q int) {
	learner, leader, gen, way := s.place(q)
	ref := w.Pop(s.queue(learner, leader, gen, way))
	from, to := learner, leader
	if way == down {
		from, to = leader, learner
	}
	f := w.Value(ref).(frame)
	p := s.part(w, to)
	switch {
	case p.Peer == nil || !p.Links[f.Link]:
		return
	case f.End:
		w.Say("%d -> %d the end", from+1, to+1)
	case f.IsTree:
		w.Say("%d -> %d its tree", from+1, to+1)
		if leads := s.part(w, from); leads.Peer != nil && leads.Links[incoming(quorum.ID(to+1), gen)] {
			f.Tree = leads.Tree // a fuzzy snapshot: it includes what was delivered while it was on its way
			ref = w.Intern(f)
		}
	default:
		w.Say("%d -> %d %s", from+1, to+1, f.Message.String())
	}
	s.give(w, to, ref)
}

// crash ends a server's process. Frames that it sent stay on their way.
func (s *system) crash(w *model.World, i, done int) {
	p := s.part(w, i)
	w.Say("%d dies; its disk has done %d of %d", p.ID, done, len(p.Disk.Pending))
	links := sortedLinks(p.Links)
	s.give(w, i, w.Event(crash{done}))
	for _, link := range links {
		s.send(w, i, link, w.Intern(frame{End: true}))
	}
}

// reset breaks a connection: frames on their way are lost, and each end learns of it at
// some later time.
func (s *system) reset(w *model.World, q int) {
	learner, leader, gen, _ := s.place(q)
	l, m := quorum.ID(learner+1), quorum.ID(leader+1)
	w.Say("the connection of %d to %d breaks", l, m)
	for way, far := range []zab.LinkID{up: incoming(l, gen), down: outgoing(m, gen)} {
		slot := s.queue(learner, leader, gen, way)
		w.Clear(slot)
		w.Push(slot, w.Intern(frame{Link: far, End: true}))
	}
}

// give gives an event to a server and carries out the effects.
func (s *system) give(w *model.World, i int, event model.Ref) {
	for _, e := range w.Give(i, event) {
		switch v := e.Value.(type) {
		case note:
			w.Say("  %d: %s", i+1, v)
		case shown:
			w.Give(s.order(), e.Ref)
		case sent:
			s.send(w, i, v.Link, e.Ref)
		}
	}
}

// send puts a frame on a connection if its other end is open. A closed end receives nothing
// more.
func (s *system) send(w *model.World, i int, link zab.LinkID, ref model.Ref) {
	f, ok := w.Value(ref).(frame)
	if !ok {
		f = w.Value(ref).(sent).frame
	}
	peer, gen := int(link%10)-1, int(link/10%10)
	slot, back := s.queue(i, peer, gen, up), s.queue(i, peer, gen, down)
	f.Link = incoming(quorum.ID(i+1), gen)
	if link < 200 {
		slot, back = s.queue(peer, i, gen, down), s.queue(peer, i, gen, up)
		f.Link = outgoing(quorum.ID(i+1), gen)
	}
	if p := s.part(w, peer); p.Peer != nil && p.Links[f.Link] {
		w.Push(slot, w.Intern(f))
	}
	if f.End {
		w.Clear(back)
	}
}
