package raftmodel

import (
	"fmt"
	"slices"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/algo/raft"
	"github.com/conclave-project/conclave/internal/model"
)

// A member that has lost its disk comes back as a raft.Newcomer. It meets the others in any
// order; a member that has met it accepts no message from its earlier lives. Questions and
// answers are messages like all others.

// packet makes a message for the life of the other member that this one has met.
func (p *member) packet(to algo.ID, m algo.Message, q *question) packet {
	return packet{From: p.ID, To: to, FromLife: p.Life, ToLife: p.Met[to], Message: m, Question: q}
}

// String returns the question or the message.
func (p packet) String() string {
	if p.Question != nil {
		return fmt.Sprintf("question %+v", *p.Question)
	}
	return p.Message.String()
}

// lose makes a member lose its memory and its disk.
func (s *system) lose(p *member) {
	p.Life++
	p.Machine, p.Leads, p.UntilMs, p.Frozen, p.Met = nil, false, 0, false, nil
	p.Disk = algo.State{Config: p.Disk.Config}
	p.Entry = s.scope.Mutant.newcomer(s.others(p.ID))
}

func (s *system) others(self algo.ID) (others []algo.ID) {
	for i := range s.n {
		if id(i) != self {
			others = append(others, id(i))
		}
	}
	return others
}

// meet records a connection with another member.
func (s *system) meet(p *member, e meet) []any {
	met := map[algo.ID]int{e.ID: e.Life}
	for other, life := range p.Met {
		if other != e.ID {
			met[other] = life
		}
	}
	p.Met = met
	if p.Entry == nil {
		return nil
	}
	p.Entry.Meet(p.NowMs, e.ID)
	return s.ask(p)
}

// ask sends the question that is due.
func (s *system) ask(p *member) (out []any) {
	if round, ok := p.Entry.Ask(p.NowMs); ok {
		for _, other := range s.others(p.ID) {
			out = append(out, p.packet(other, algo.Message{}, &question{Round: round}))
		}
	}
	return out
}

// question answers a newcomer, or handles an answer.
func (s *system) question(p *member, e packet) []any {
	q := e.Question
	if !q.Answer {
		told := raft.Told{Term: p.Disk.Floor, Remembers: p.Machine != nil}
		if p.Machine != nil {
			told.Term = max(told.Term, p.Machine.Status().Term)
		}
		return []any{p.packet(e.From, algo.Message{}, &question{Round: q.Round, Answer: true, Told: told})}
	}
	if p.Entry == nil {
		return nil
	}
	floor, ok := p.Entry.Answer(p.NowMs, e.From, q.Round, q.Told)
	if !ok {
		return nil
	}
	p.Entry = nil
	p.Disk.Floor = s.scope.Mutant.entryFloor(floor)
	s.boot(p)
	return append([]any{note("TAKES PART")}, s.want(p)...)
}

// canMeet reports whether a newcomer can connect with another member now.
func (s *system) canMeet(w *model.World, i, j int) bool {
	p, other := s.part(w, i), s.part(w, j)
	if i == j || p.Entry == nil || !other.up() || p.Frozen || other.Frozen || p.Cut || other.Cut {
		return false
	}
	return slices.Contains(p.Entry.Missing(), other.ID)
}

// connect lets two members meet.
func (s *system) connect(w *model.World, i, j int) {
	w.Say("%s meets %s", id(i), id(j))
	life, other := s.part(w, i).Life, s.part(w, j).Life
	s.give(w, j, w.Event(meet{id(i), life}))
	s.give(w, i, w.Event(meet{id(j), other}))
}

// lost ends the connections of a member with newcomers, or of a newcomer.
func (s *system) lost(w *model.World, away int) {
	for i := range s.n {
		if i != away && s.part(w, i).Entry != nil {
			s.give(w, i, w.Event(gone{id(away)}))
		}
		if i != away && s.part(w, away).Entry != nil {
			s.give(w, away, w.Event(gone{id(i)}))
		}
	}
}
