package lab

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/algo/registry"
)

// leaseMs is the lease of elections without a store, and also how long they wait for a
// silent leader.
const leaseMs = 2000

// members runs an algorithm whose members elect one of themselves: raft, bully, ring or
// lowest.
type members struct {
	w         *World
	algorithm registry.Algorithm
	disks     map[string]algo.State
	ids       []algo.ID
	terms     map[uint64]string // the leader of each term
	oneLeader *Rule
	oneATerm  *Rule
	moved     *Rule
}

func newMembers(name string) func(w *World) system {
	return func(w *World) system {
		algorithm, err := registry.Get(name)
		if err != nil {
			panic(err)
		}
		m := &members{w: w, algorithm: algorithm, disks: make(map[string]algo.State), terms: make(map[uint64]string)}
		m.oneLeader = &Rule{ID: name + ": one leader", Text: "no two servers consider themselves leader at one moment", Promised: algorithm.Exclusive}
		if algorithm.Exclusive {
			m.oneLeader.ID = "raft-T3"
			m.oneATerm = &Rule{ID: "raft-T1", Text: "no two servers lead in one term", Promised: true}
			m.moved = &Rule{ID: "terms grow", Text: "each leader has a higher term than the one before: it is a fencing token", Promised: true}
		}
		return m
	}
}

func (m *members) names(count int) []string {
	var names []string
	for i := range count {
		names = append(names, "s"+strconv.Itoa(i+1))
		m.ids = append(m.ids, algo.ID(names[i]))
	}
	return names
}

func (m *members) rules() []*Rule {
	if m.oneATerm == nil {
		return []*Rule{m.oneLeader}
	}
	return []*Rule{m.oneATerm, m.oneLeader, m.moved}
}

func (m *members) start(s *server) {
	machine := m.algorithm.New(s.nowMs(), registry.Options{ID: algo.ID(s.id), Members: slices.Clone(m.ids), State: m.disks[s.id],
		LeaseMs: leaseMs, DriftPercent: 10, Seed: m.w.random.next()})
	p := &member{system: m, server: s, machine: machine}
	s.part = p
	p.step(algo.Campaign{})
}

func (m *members) died(*server) {}

func (m *members) wipe(s *server) { delete(m.disks, s.id) }

func (m *members) do(a Action) (bool, error) {
	var event algo.Event
	args := 1
	switch a.Verb {
	case "campaign":
		event = algo.Campaign{}
	case "withdraw":
		event = algo.Withdraw{}
	case "transfer":
		args = 2
	default:
		return false, nil
	}
	if len(a.Args) != args {
		return true, fmt.Errorf("%s takes %d arguments", a.Verb, args)
	}
	if args == 2 {
		if _, err := m.w.server(a.Args[1]); err != nil {
			return true, err
		}
		event = algo.Transfer{To: algo.ID(a.Args[1])}
	}
	return true, m.w.with(a, "alive", func(s *server) {
		m.w.note(s, NoteFault, "is told to %s", a.Verb)
		s.hand(func() { s.part.(*member).step(event) })
	})
}

// check looks for two simultaneous leaders.
func (m *members) check() {
	first := ""
	for _, s := range m.w.servers {
		p, alive := s.part.(*member)
		switch {
		case !alive || !p.considersItselfLeader():
		case first == "":
			first = s.id
		default:
			m.w.breaks(m.oneLeader, fmt.Sprintf("%s and %s consider themselves leader", first, s.id))
		}
	}
}

// member is one member.
type member struct {
	system  *members
	server  *server
	machine algo.Machine
	leads   bool
	untilMs int64
}

// considersItselfLeader reports whether it would act as leader if it looked at its clock
// now. A paused member counts until its lease expires.
func (p *member) considersItselfLeader() bool {
	return p.leads && (p.untilMs == 0 || p.server.nowMs() < p.untilMs)
}

func (p *member) tick()                 { p.step(algo.Tick{}) }
func (p *member) wakeMs() (int64, bool) { return p.machine.WakeMs() }

func (p *member) receive(from *server, payload any) {
	p.step(algo.Received{From: algo.ID(from.id), Message: payload.(algo.Message)})
}

// step gives an event to the machine and carries out the effects.
func (p *member) step(event algo.Event) {
	w, s := p.system.w, p.server
	for _, effect := range slices.Clone(p.machine.Step(s.nowMs(), event)) {
		switch e := effect.(type) {
		case algo.Persist:
			p.system.disks[s.id] = e.State
			w.note(s, NoteState, "stores term %d, vote for %s", e.Term, orNobody(string(e.Vote)))
		case algo.Send:
			message := e.Message
			message.Config.Members = slices.Clone(message.Config.Members)
			if to := w.find(string(e.To)); to != nil {
				s.send(to, e.Type.String(), e.Message.String(), message)
			}
		case algo.Lead:
			p.leads, p.untilMs = true, e.UntilMs
			w.note(s, NoteRole, "leads%s", ofTerm(e.Term))
			p.system.led(s.id, e.Term)
		case algo.Extend:
			p.untilMs = e.UntilMs
		case algo.Lost:
			p.leads = false
			w.note(s, NoteRole, "leads no more")
		case algo.Follow:
			if e.Leader == "" {
				w.note(s, NoteRole, "knows no leader%s", ofTerm(e.Term))
			} else {
				w.note(s, NoteRole, "follows %s%s", e.Leader, ofTerm(e.Term))
			}
		}
	}
}

// led records the leader of a term.
func (m *members) led(id string, term uint64) {
	if m.oneATerm == nil {
		return
	}
	if other, led := m.terms[term]; led && other != id {
		m.w.breaks(m.oneATerm, fmt.Sprintf("%s and %s have led in term %d", other, id, term))
	}
	for before := range m.terms {
		if before > term {
			m.w.breaks(m.moved, fmt.Sprintf("%s leads in term %d after term %d", id, term, before))
		}
	}
	m.terms[term] = id
}

func (p *member) view(v *Server) {
	status := p.machine.Status()
	v.Leads, v.Leader = p.considersItselfLeader(), string(status.Leader)
	switch {
	case v.Leads:
		v.Role = "leader"
	case v.Leader != "" && v.Leader != v.ID:
		v.Role = "follower"
	default:
		v.Role = "candidate"
	}
	if p.untilMs > 0 && v.Leads {
		v.LeaseMs, v.LeaseOfMs = p.untilMs-p.server.nowMs(), leaseMs
	}
	if p.system.algorithm.Exclusive {
		disk := p.system.disks[v.ID]
		v.field("term", strconv.FormatUint(status.Term, 10))
		v.field("vote", orNobody(string(disk.Vote)))
		if v.Leader == "" && disk.Term == status.Term {
			v.Vote = string(disk.Vote)
		}
	}
	v.field("leader", orNobody(v.Leader))
}

func ofTerm(term uint64) string {
	if term == 0 {
		return ""
	}
	return fmt.Sprintf(" in term %d", term)
}

func orNobody(id string) string {
	if id == "" {
		return "nobody"
	}
	return id
}
