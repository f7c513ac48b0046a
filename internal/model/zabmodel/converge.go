package zabmodel

import (
	"github.com/conclave-project/conclave/internal/model"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/zab"
)

// rest removes all faults. Dead servers stay dead if the others are enough.
func (s *system) rest(w *model.World) {
	for n := range numbers {
		w.SetNumber(s.number(n), 0)
	}
	var alive quorum.IDs
	for i := range s.n {
		if p := s.part(w, i); p.Peer != nil {
			alive.Add(p.ID)
		}
	}
	enough := quorum.NewMajority(s.scope.Old...).Enough(alive) && (s.scope.New == nil || quorum.NewMajority(s.scope.New...).Enough(alive))
	for i := range s.n {
		if s.part(w, i).Peer == nil && !enough {
			s.do(w, moveRestart|model.Move(i))
		}
	}
}

// converge takes the next step of a system without faults: disks, messages in turn,
// connections, correct elections, then time.
func (s *system) converge(w *model.World) bool {
	for i := range s.n {
		if len(s.part(w, i).Disk.Pending) > 0 {
			s.do(w, moveDisk|model.Move(i))
			return false
		}
	}
	queues := 4 * s.n * s.n
	first := w.Number(s.number(cursor))
	for k := range queues {
		if q := (first + k) % queues; w.Len(s.queue(0, 0, 0, 0)+q) > 0 {
			w.SetNumber(s.number(cursor), (q+1)%queues)
			s.deliver(w, q)
			return false
		}
	}
	w.SetNumber(s.number(cursor), 0)
	for i := range s.n {
		if p := s.part(w, i); p.Dialing != 0 && s.dialGen(w, i, int(p.Dialing)-1) >= 0 {
			s.connect(w, i)
			return false
		}
	}
	switch {
	case s.good(w):
		return true
	case s.electRight(w):
		return false
	}
	for i := range s.n {
		if s.part(w, i).Peer != nil {
			w.Say("%d: %d ms later", i+1, jumpMs)
			s.give(w, i, w.Event(jump{}))
		}
	}
	return false
}

// electRight lets the looking servers elect the existing leader, or the best of them if all
// are looking.
func (s *system) electRight(w *model.World) bool {
	looking, leader, all := 0, -1, true
	for i := range s.n {
		p := s.part(w, i)
		switch {
		case p.Peer == nil:
		case p.Peer.Quiet():
			looking |= 1 << i
		case p.Peer.State() == zab.Leading:
			leader = i
		default:
			all = false
		}
	}
	if looking == 0 || leader < 0 && !all {
		return false
	}
	for i := range s.n {
		p := s.part(w, i)
		for j := range s.n { // votes carry the configuration in force
			if version := s.part(w, j).Disk.InForce; looking>>i&1 == 1 && version > p.Disk.InForce {
				w.Say("%d learns of the configuration", i+1)
				s.give(w, i, w.Event(adopt{version}))
				return true
			}
		}
	}
	if leader < 0 {
		leader = s.best(w, looking)
	}
	for i := range s.n { // a leader refuses servers with a newer configuration, so they wait
		if looking>>i&1 == 1 && s.part(w, i).Disk.InForce > s.part(w, leader).Disk.InForce {
			looking &^= 1 << i
		}
	}
	if looking == 0 {
		return false
	}
	s.elect(w, leader, looking)
	return true
}

// best returns the server that wins an election: by epoch, zxid, id.
func (s *system) best(w *model.World, looking int) int {
	best := -1
	for i := range s.n {
		if looking>>i&1 == 1 && (best < 0 || !outranks(s.part(w, best), s.part(w, i))) {
			best = i
		}
	}
	return best
}

func outranks(p, q *server) bool {
	_, a := p.Peer.Epochs()
	_, b := q.Peer.Epochs()
	if a != b {
		return a > b
	}
	return p.Peer.Last() > q.Peer.Last()
}

// good reports whether all servers that are up serve the same tree, and one leads.
func (s *system) good(w *model.World) bool {
	leads, first := false, -1
	for i := range s.n {
		p := s.part(w, i)
		if p.Peer == nil {
			continue
		}
		if !p.Serving || p.Peer.Delivered() != p.Peer.Last() {
			return false
		}
		leads = leads || p.Peer.State() == zab.Leading
		if first >= 0 && len(p.Tree) != len(s.part(w, first).Tree) {
			return false
		}
		first = i
	}
	return leads
}
