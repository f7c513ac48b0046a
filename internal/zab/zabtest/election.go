package zabtest

import (
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/zab"
)

// The election here is an oracle. Zab must be safe whatever it says, so it may choose anybody
// while the run is wild. In the end it has to be right, because otherwise the ensemble would
// never become live.

// seekLeader makes a looking server ask again and again who leads.
func (s *server) seekLeader(life int) {
	s.w.after(s.w.delay(150), func() {
		if s.life != life || !s.up {
			return
		}
		if s.peer.Quiet() && len(s.inbox) == 0 {
			s.w.elect(s)
		}
		s.seekLeader(life)
	})
}

// elect finds a leader for a looking server: one that leads already, or the best of the looking
// servers if they are a quorum.
func (w *World) elect(s *server) {
	var looking quorum.IDs
	best := s
	for _, t := range w.servers {
		if t != s && (!t.up || !w.reachable(s.id, t.id)) {
			continue
		}
		if t.peer.State() == zab.Leading && t != s {
			s.elected(t.id)
			return
		}
		if t.observer || !t.peer.Quiet() {
			continue
		}
		looking.Add(t.id)
		if best.observer || t.outranks(best) {
			best = t
		}
	}
	if !quorum.NewMajority(w.participants()...).Enough(looking) {
		return
	}
	if w.wrong && w.chance.oneIn(6) {
		best = w.server(looking[w.chance.below(len(looking))])
	}
	w.tally.Elections++
	for _, id := range looking {
		t := w.server(id)
		life := t.life
		w.after(w.delay(30), func() {
			if t.life == life && t.up && t.peer.Quiet() && len(t.inbox) == 0 {
				t.elected(best.id)
			}
		})
	}
}

func (w *World) participants() []quorum.ID {
	var ids []quorum.ID
	for i := range w.opts.Participants {
		ids = append(ids, quorum.ID(i+1))
	}
	return ids
}

// outranks reports whether a vote for s is better, by epoch, zxid and id.
func (s *server) outranks(t *server) bool {
	_, a := s.peer.Epochs()
	_, b := t.peer.Epochs()
	if a != b {
		return a > b
	}
	if s.peer.Last() != t.peer.Last() {
		return s.peer.Last() > t.peer.Last()
	}
	return s.id > t.id
}

func (s *server) elected(leader quorum.ID) {
	s.w.note("%d: elected %d", s.id, leader)
	s.push(zab.Event{Kind: zab.EventElected, Server: leader})
}
