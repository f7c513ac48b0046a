// Package flemodel explores elections: package fle's machines, whole, over links
// of which each keeps one notification, the newest, as those between servers do.
//
// Two schedules: every order of what can happen (Scope.Delays below 0), or the
// oldest first, of which so many things are put off (delay-bounded; S. Emmi, S.
// Qadeer, Z. Rakamaric, POPL 2011): that reaches deep with many servers.
//
// What must hold: for one round no two leaders have quorums that decided for
// them by votes (fle-F1), no invariant of a machine breaks, and from every state,
// once nothing more goes wrong, all servers that are up agree on one that leads.
// Nothing repairs an election here but what the servers tell each other; only
// followers of a server that has died find out, as by their connections.
package flemodel

import (
	"fmt"

	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/model"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// Scope says how much is explored. Counts are of a whole run.
type Scope struct {
	Text    string
	Servers int
	Zxids   [][]uint32 // counters of the servers' last zxids: one start each
	Delays  int        // below 0: every order
	Looks   int        // elections begun again, by doubt
	Crashes int        // each may be followed by a restart
	Repeats int        // connections made again, which repeat the last message
	Ticks   int        // a server's resend pause ends: it repeats its vote
	Forged  int        // messages of a stranger in a server's name, with an impossible round
	Change  *Change
	Mutant  Mutant
}

// Change is a reconfig that is under way.
type Change struct {
	Next []quorum.ID // the participants it leads to
	// Knows are the starts: in each, what the servers know of it.
	Knows [][]Knowledge
}

// Knowledge is what a server knows of a change.
type Knowledge uint8

// The steps of it.
const (
	Nothing Knowledge = iota
	Logged            // it is in the log
	InForce           // it is known to be committed
)

// The numbers after the servers, links and last messages.
const (
	looks = iota
	crashes
	repeats
	ticks
	forged
	delays
	cursor   // of the fair schedule
	patience // ticks of the fair schedule
	numbers
)

// kinds of moves; the rest of a Move is who, or from and to.
const (
	moveLook model.Move = iota << 16
	moveDeliver
	moveRepeat
	moveTick
	moveCrash
	moveRestart
	moveNotice
	moveForge
	moveNext
	moveDelay
	moveRelease
)

const kindOf = ^model.Move(0xffff)

// resendMs is the pause after which a vote is said again.
const resendMs = 200

// server is one of them: a part.
type server struct {
	ID      quorum.ID
	Machine *fle.Machine // nil while it is down
	NowMs   int64
	Begin   fle.Look
	Knows   Knowledge         // of the change
	Started bool              // has looked in this life
	Wants   bool              // is to look: it has started, or doubts, or its leader has died
	Decided map[int64]decided // by votes, by round
}

// decided is a decision by votes.
type decided struct{ Leader quorum.ID }

// Clock implements model.Clocked.
func (s *server) Clock() int64 { return s.NowMs }

// packet is a notification on its way.
type packet struct {
	From, To quorum.ID
	fle.Notification
}

// The events of a server beside packets.
type (
	look    struct{}
	tick    struct{ Ms int64 }
	crash   struct{}
	restart struct{}
	notice  struct{}
)

// layout finds slots: servers, links, last messages, the agenda, numbers.
type layout struct{ n int }

func (l layout) link(from, to int) int { return l.n + from*l.n + to }
func (l layout) last(from, to int) int { return l.n + l.n*l.n + from*l.n + to }
func (l layout) agenda() int           { return l.n + 2*l.n*l.n }
func (l layout) held() int             { return l.agenda() + 1 }
func (l layout) number(n int) int      { return l.agenda() + 2 + n }

// system is a scope with what follows from it.
type system struct {
	layout
	scope Scope
}

// New returns the model of a scope.
func New(scope Scope) *model.Model {
	s := &system{layout{scope.Servers}, scope}
	slots := make([]model.Slot, s.number(numbers))
	slots[s.agenda()], slots[s.held()] = model.Queue, model.Queue
	for n := range numbers {
		slots[s.number(n)] = model.Number
	}
	starts := len(scope.Zxids)
	if scope.Change != nil {
		starts *= len(scope.Change.Knows)
	}
	return &model.Model{Name: "fle", Scope: scope.Text, Shape: shape(), Slots: slots, Starts: starts, Start: s.start,
		Step: s.step, Moves: s.moves, Do: s.do, Check: s.check, Rest: s.rest, Converge: s.converge, ConvergeMax: 3000,
		StoryHead: s.storyHead()}
}

func shape() *model.Shape {
	return &model.Shape{
		Scratch: []string{"fle.Machine.out"},
		Moments: []string{"flemodel.server.NowMs", "fle.Machine.resendMs", "fle.Machine.finalizeMs", "fle.Machine.roundEndMs",
			"fle.asker.atMs", "fle.early.atMs"},
		Spans:  []string{"fle.Config.*", "fle.Machine.resendGapMs", "flemodel.tick.Ms"},
		PastMs: 2 * resendMs,
	}
}

// participants returns who votes before the change.
func (s *system) participants() []quorum.ID {
	var ids []quorum.ID
	for i := range s.scope.Servers {
		if s.scope.Change == nil || i < 3 {
			ids = append(ids, quorum.ID(i))
		}
	}
	return ids
}

func (s *system) start(w *model.World, n int) {
	zxids := s.scope.Zxids[n%len(s.scope.Zxids)]
	for i := range s.n {
		part := &server{ID: quorum.ID(i), NowMs: 1_000_000, Begin: fle.Look{Zxid: zk.MakeZxid(1, zxids[i]), Epoch: 1}, Wants: true}
		if c := s.scope.Change; c != nil {
			part.Knows = c.Knows[n/len(s.scope.Zxids)][i]
		}
		s.boot(part)
		w.Put(i, part)
		if s.scope.Delays >= 0 {
			w.Push(s.agenda(), w.Event(task{i, i}))
		}
	}
	for number, budget := range map[int]int{looks: s.scope.Looks, crashes: s.scope.Crashes,
		repeats: s.scope.Repeats, ticks: s.scope.Ticks, forged: s.scope.Forged, delays: max(0, s.scope.Delays)} {
		w.SetNumber(s.number(number), budget)
	}
}

// boot gives a server a new machine.
func (s *system) boot(p *server) {
	p.Machine = fle.New(fle.Config{ID: p.ID, ResendMinMs: resendMs, ResendMaxMs: resendMs}, s.ensemble(p))
	p.Started, p.Wants = false, true
}

// ensemble is the configuration as a server knows it.
func (s *system) ensemble(p *server) fle.Ensemble {
	e := fle.Ensemble{Committed: quorum.NewMajority(s.participants()...), Version: 1, Config: "old"}
	c := s.scope.Change
	switch {
	case c == nil:
		e.Version, e.Config = 0, ""
	case p.Knows == InForce:
		e = fle.Ensemble{Committed: quorum.NewMajority(c.Next...), Version: 2, Config: "new"}
	case p.Knows == Logged:
		e.Seen, e.SeenVersion, e.SeenConfig = quorum.NewMajority(c.Next...), 2, "new"
	}
	return e
}

// step is what an event makes of a server.
func (s *system) step(part, event any) []any {
	p := part.(*server)
	switch e := event.(type) {
	case crash:
		p.Machine, p.Started, p.Wants = nil, false, false
		return nil
	case restart:
		s.boot(p)
		return nil
	case notice:
		p.Wants = true
		return nil
	case look:
		p.Wants, p.Started = false, true
		return s.feed(p, p.Begin)
	case tick:
		p.NowMs += e.Ms
		return s.feed(p, fle.Tick{})
	case packet:
		return s.feed(p, fle.Received{From: e.From, Notification: e.Notification})
	}
	panic(fmt.Sprintf("flemodel: event %T", event))
}

// feed steps the machine and carries out what concerns the server alone.
func (s *system) feed(p *server, event fle.Event) []any {
	if !s.scope.Mutant.before(p, event) {
		return nil
	}
	effects := s.scope.Mutant.after(p, event, p.Machine.Step(p.NowMs, event))
	var out []any
	var more []fle.Event
	for _, effect := range effects {
		switch e := effect.(type) {
		case fle.Send:
			out = append(out, packet{p.ID, e.To, e.Notification})
		case fle.Doubt:
			p.Wants = true
			out = append(out, e)
		case fle.Elected:
			p.Wants = false
			if !e.Joined {
				p.decide(e)
			}
			out = append(out, e)
		case fle.Adopt:
			p.Knows = InForce
			out = append(out, e)
			more = append(more, fle.Reconfigured{Ensemble: s.ensemble(p)})
		case fle.Learned:
			learned := s.ensemble(p)
			learned.Learned = quorum.NewMajority(s.scope.Change.Next...)
			out = append(out, e)
			more = append(more, fle.Reconfigured{Ensemble: learned})
		default:
			out = append(out, e)
		}
	}
	for _, event := range more {
		out = append(out, s.feed(p, event)...)
	}
	return out
}

// decide notes a decision by votes.
func (p *server) decide(e fle.Elected) {
	if p.Decided == nil {
		p.Decided = map[int64]decided{}
	}
	p.Decided[e.Round] = decided{e.Leader}
}
