package flemodel

import (
	"fmt"
	"strings"

	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/model"
	"github.com/conclave-project/conclave/internal/quorum"
)

// patienceTicks is the number of pauses after which a server leaves a leader that does not
// lead, like Zab's initLimit.
const patienceTicks = 8

// rest removes all faults. Dead servers stay dead if the others are a quorum.
func (s *system) rest(w *model.World) {
	for n := range numbers {
		w.SetNumber(s.number(n), 0)
	}
	w.Clear(s.agenda())
	w.Clear(s.held())
	for i := range s.n {
		for j := range s.n {
			w.PutRef(s.last(i, j), 0)
		}
	}
}

// converge takes the next step of a system without faults: first messages, in turn, then
// servers that must begin an election, then time.
func (s *system) converge(w *model.World) bool {
	w.SetNumber(s.number(looks), 1) // elections are not limited here
	defer w.SetNumber(s.number(looks), 0)
	links := s.n * s.n
	first := w.Number(s.number(cursor))
	for k := range links {
		at := (first + k) % links
		if from, to := at/s.n, at%s.n; w.PartRef(s.link(from, to)) != 0 {
			w.SetNumber(s.number(cursor), (at+1)%links)
			s.deliver(w, from, to)
			return false
		}
	}
	for i := range s.n {
		if p := s.part(w, i); p.Machine != nil && p.Wants {
			s.look(w, i)
			return false
		}
	}
	if s.good(w) {
		return true
	}
	s.wait(w)
	return false
}

// wait lets one pause pass for all servers. Servers that follow a dead one notice it. If
// Zab's limits are needed, a server that waits in vain gives up in the end.
func (s *system) wait(w *model.World) {
	w.Say("%d ms pass", resendMs)
	waited := w.Number(s.number(patience)) + 1
	w.SetNumber(s.number(patience), waited%patienceTicks)
	for i := range s.n {
		p := s.part(w, i)
		if p.Machine == nil {
			continue
		}
		if s.orphan(w, p) || s.repairs() && waited == patienceTicks && s.waitsInVain(w, p) {
			w.Say("%d leaves", i)
			s.give(w, i, w.Event(notice{}))
			continue
		}
		s.give(w, i, w.Event(tick{resendMs}))
	}
}

// repairs reports whether Zab's limits are needed: when servers may die, and during a
// change, when only the quorum of one of the two ensembles may follow a leader.
func (s *system) repairs() bool { return s.scope.Crashes > 0 || s.scope.Change != nil }

// waitsInVain reports whether a server follows one that does not lead, or leads without a
// quorum that follows it.
func (s *system) waitsInVain(w *model.World, p *server) bool {
	switch p.Machine.State() {
	case fle.Following:
		leader := s.part(w, int(p.Machine.Vote().Leader)).Machine
		return leader == nil || leader.State() != fle.Leading
	case fle.Leading:
		return !s.follows(w, p.ID)
	}
	return false
}

// follows reports whether enough servers follow a leader, according to what it knows of a
// change.
func (s *system) follows(w *model.World, leader quorum.ID) bool {
	var with quorum.IDs
	for i := range s.n {
		if m := s.part(w, i).Machine; m != nil && m.State() != fle.Looking && m.Vote().Leader == leader {
			with.Add(quorum.ID(i))
		}
	}
	e := s.ensemble(s.part(w, int(leader)))
	return quorum.NewJoint(e.Committed, e.Seen).Enough(with)
}

// good reports whether all servers that are up agree on one that leads; fewer than a quorum
// cannot. During a change it is enough that a leader has enough followers: there may be a
// server without a vote that nobody tells, and that leaves its leader only by Zab's limits.
func (s *system) good(w *model.World) bool {
	up, leads := 0, false
	var leaders quorum.IDs
	for i := range s.n {
		m := s.part(w, i).Machine
		if m == nil {
			continue
		}
		up++
		leads = leads || m.State() == fle.Leading && s.follows(w, quorum.ID(i))
		switch {
		case m.State() == fle.Looking:
			leaders.Add(-1)
		case (m.State() == fle.Leading) != (m.Vote().Leader == quorum.ID(i)):
			leaders.Add(-2)
		}
		leaders.Add(m.Vote().Leader)
	}
	if s.scope.Change != nil {
		return leads
	}
	return up <= s.n/2 || leads && len(leaders) == 1
}

// storyHead returns the beginning of a story. All links are partitioned, and each
// notification is injected in the order of the trace.
func (s *system) storyHead() string {
	if s.scope.Change != nil || s.scope.Crashes > 0 {
		return ""
	}
	var b strings.Builder
	ids := strings.Trim(fmt.Sprint(s.participants()), "[]")
	fmt.Fprintf(&b, "participants %s\nservers %s", ids, ids)
	for i := range s.n {
		for j := range i {
			fmt.Fprintf(&b, "\npart %d %d", j, i)
		}
	}
	return b.String()
}
