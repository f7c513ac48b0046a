// Package flemodel explores elections: it runs the complete machines of package fle over
// links that, like the ones between servers, keep only the newest notification.
//
// It has two schedules: every order of events (Scope.Delays below 0), or oldest first, with
// a limited number of tasks put off (delay-bounded; S. Emmi, S. Qadeer, Z. Rakamaric, POPL
// 2011), which explores deep runs of many servers.
//
// What must hold: in one round no two leaders have quorums that decided for them by votes
// (fle-F1), no invariant of a machine breaks, and from every state, without further faults,
// all servers that are up agree on one that leads. An election can be repaired only by what
// the servers tell each other; except that followers of a dead server notice its death, as
// they would by their connections.
package flemodel

import (
	"fmt"

	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/model"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// Scope defines how much is explored. Counts apply to a whole run.
type Scope struct {
	Text    string
	Servers int
	Zxids   [][]uint32 // counters of the servers' last zxids: each list is one initial state
	Delays  int        // below 0: every order
	Looks   int        // elections that a server begins again because of a doubt
	Crashes int        // each may be followed by a restart
	Repeats int        // connections made again, which deliver the last message again
	Ticks   int        // a server's resend pause ends: it repeats its vote
	Forged  int        // messages in a server's name that it did not send, with an impossible round
	Change  *Change
	Mutant  Mutant
}

// Change is a reconfig in progress.
type Change struct {
	Next []quorum.ID // the participants after it
	// Knows lists the initial states: in each, what every server knows of the change.
	Knows [][]Knowledge
}

// Knowledge is what a server knows of a change.
type Knowledge uint8

// The steps of a change as a server knows them.
const (
	Nothing Knowledge = iota
	Logged            // it is in the log
	InForce           // it is known to be committed
)

// The counters that follow the servers, links and last messages.
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

// The kinds of moves; the rest of a Move is one server, or the sender and the receiver.
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

// resendMs is the pause after which a vote is sent again.
const resendMs = 200

// server is one server: a part of the model's world.
type server struct {
	ID      quorum.ID
	Machine *fle.Machine // nil while it is down
	NowMs   int64
	Begin   fle.Look
	Knows   Knowledge         // of the change
	Started bool              // has begun an election since its start
	Wants   bool              // must begin an election: it has started, has a doubt, or its leader has died
	Decided map[int64]decided // decisions by votes, by round
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

// The events of a server, apart from packets.
type (
	look    struct{}
	tick    struct{ Ms int64 }
	crash   struct{}
	restart struct{}
	notice  struct{}
)

// layout computes slots: servers, links, last messages, the agenda, counters.
type layout struct{ n int }

func (l layout) link(from, to int) int { return l.n + from*l.n + to }
func (l layout) last(from, to int) int { return l.n + l.n*l.n + from*l.n + to }
func (l layout) agenda() int           { return l.n + 2*l.n*l.n }
func (l layout) held() int             { return l.agenda() + 1 }
func (l layout) number(n int) int      { return l.agenda() + 2 + n }

// system is a scope and the values derived from it.
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

// participants returns the servers that vote before the change.
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

// ensemble returns the configuration as a server knows it.
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

// step gives an event to a server and returns the effects.
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

// feed steps the machine and carries out the effects that concern only this server.
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

// decide records a decision by votes.
func (p *server) decide(e fle.Elected) {
	if p.Decided == nil {
		p.Decided = map[int64]decided{}
	}
	p.Decided[e.Round] = decided{e.Leader}
}
