package lab

import (
	"container/heap"
	"fmt"
	"slices"
)

// World is one run. It is not safe for concurrent use.
type World struct {
	spec    Spec
	system  system
	nowUs   int64
	agenda  agenda
	order   int
	random  random
	servers []*server
	flights []*flight
	sent    int // the number of the last message
	cut     map[way]bool
	caught  []catch
	notes   []Note
	rules   []*Rule
	done    int // actions that were carried out
	stepped bool
}

// system is what runs on the servers: one of the algorithms.
type system interface {
	// names returns the servers, in the order in which they are drawn.
	names(count int) []string
	// start puts a part on a server that was down, made of what its disk has.
	start(s *server)
	// died says that the process of a server has ended; its disk stays.
	died(s *server)
	// wipe empties the disk of a server that is down.
	wipe(s *server)
	// do carries out an action of its own. It returns false if it knows no such verb.
	do(a Action) (bool, error)
	// rules returns what must hold.
	rules() []*Rule
	// check looks whether it does.
	check()
}

// part is what runs on one server.
type part interface {
	tick()
	// wakeMs returns when it wants its next tick, by the server's clock.
	wakeMs() (int64, bool)
	receive(from *server, payload any)
	view(v *Server)
}

// server is one of them, up or down.
type server struct {
	w       *World
	id      string
	part    part // nil while it is down
	paused  bool
	late    []func() // what came while it was paused
	life    int      // grows with each start
	startUs int64    // when its clock got its rate
	ppm     int64    // its clock gains so many microseconds in a second
	gainUs  int64    // what it had gained by then
	wake    int      // number of its last wake-up call
}

// way is one direction between two servers.
type way struct{ from, to string }

// New returns the world of a spec at time 0: all servers have started.
func New(spec Spec) (*World, error) {
	spec, err := spec.validate()
	if err != nil {
		return nil, err
	}
	w := &World{spec: spec, random: random{spec.Seed}, cut: make(map[way]bool)}
	w.system = algorithms[spec.Algorithm].make(w)
	for _, id := range w.system.names(spec.Servers) {
		w.servers = append(w.servers, &server{w: w, id: id})
	}
	w.rules = w.system.rules()
	for _, s := range w.servers {
		w.start(s)
	}
	return w, nil
}

// Spec returns what the world is made of, with the actions that were done since.
func (w *World) Spec() Spec { return w.spec }

// NowUs returns the time, in microseconds since the beginning.
func (w *World) NowUs() int64 { return w.nowUs }

// Run lets time pass up to a moment, in microseconds, and carries out the actions that
// are due. Time does not go back.
func (w *World) Run(toUs int64) {
	for {
		next := toUs
		due := w.done < len(w.spec.Actions) && w.spec.Actions[w.done].AtUs <= toUs
		if due {
			next = w.spec.Actions[w.done].AtUs
		}
		w.pass(next)
		if !due {
			return
		}
		w.done++
		if err := w.carryOut(w.spec.Actions[w.done-1]); err != nil {
			w.note(nil, NoteFault, "%v cannot be done: %v", w.spec.Actions[w.done-1], err)
		}
	}
}

// pass lets happen what happens by a moment.
func (w *World) pass(toUs int64) {
	for len(w.agenda) > 0 && w.agenda[0].us <= toUs {
		next := heap.Pop(&w.agenda).(timed)
		w.nowUs = max(w.nowUs, next.us)
		next.do()
	}
	w.nowUs = max(w.nowUs, toUs)
	w.flights = slices.DeleteFunc(w.flights, func(f *flight) bool { return f.over && f.seenUntilUs() <= w.nowUs })
}

// StepMax is how far Step goes at most, in microseconds.
const StepMax = 5_000_000

// Step runs until something has happened that is told: a message that is sent or arrives, a note, an
// action; at most StepMax, and to the end of a run.
func (w *World) Step() {
	end, notes, actions := min(w.nowUs+StepMax, EndUs), len(w.notes), w.done
	w.stepped = false
	for w.nowUs < end && !w.stepped && len(w.notes) == notes && w.done == actions {
		next := end
		if len(w.agenda) > 0 {
			next = min(next, w.agenda[0].us)
		}
		if w.done < len(w.spec.Actions) {
			next = min(next, w.spec.Actions[w.done].AtUs)
		}
		w.Run(max(next, w.nowUs))
		if len(w.agenda) == 0 && w.done == len(w.spec.Actions) {
			return
		}
	}
}

// at does something at a moment, not before the present one.
func (w *World) at(us int64, do func()) {
	w.order++
	heap.Push(&w.agenda, timed{max(us, w.nowUs), w.order, do})
}

// after does something later, unless the server has died by then.
func (s *server) after(us int64, do func()) {
	life := s.life
	s.w.at(s.w.nowUs+us, func() {
		if s.life == life {
			s.hand(do)
		}
	})
}

// find returns a server, nil if there is none of that name.
func (w *World) find(id string) *server {
	for _, s := range w.servers {
		if s.id == id {
			return s
		}
	}
	return nil
}

// nowMs is the time on the server's clock.
func (s *server) nowMs() int64 { return s.localUs(s.w.nowUs) / 1000 }

func (s *server) localUs(us int64) int64 {
	return us + s.gainUs + (us-s.startUs)*s.ppm/1_000_000
}

// worldUs is when the server's clock shows a time, rounded up.
func (s *server) worldUs(localMs int64) int64 {
	ahead := localMs*1000 - s.localUs(s.w.nowUs)
	if ahead <= 0 {
		return s.w.nowUs
	}
	return s.w.nowUs + ahead*1_000_000/(1_000_000+s.ppm) + 2
}

// start starts a server that is down.
func (w *World) start(s *server) {
	s.life++
	w.system.start(s)
	w.note(s, NoteFault, "starts")
	s.schedule()
	w.system.check()
}

// kill ends the process of a server.
func (w *World) kill(s *server) {
	s.part, s.paused, s.late = nil, false, nil
	s.life++
	s.wake++
	w.note(s, NoteFault, "dies")
	w.system.died(s)
	w.system.check()
}

// hand lets a server do something: later if it is paused, never if it is down.
func (s *server) hand(do func()) {
	switch {
	case s.part == nil:
	case s.paused:
		s.late = append(s.late, do)
	default:
		do()
		s.schedule()
		s.w.system.check()
	}
}

// resume lets a server go on: what came while it was paused comes now.
func (w *World) resume(s *server) {
	w.note(s, NoteFault, "goes on")
	s.paused = false
	late := s.late
	s.late = nil
	for _, do := range late {
		s.hand(do)
	}
	s.hand(func() { s.part.tick() })
}

// schedule wakes the part when it wants that.
func (s *server) schedule() {
	s.wake++
	if s.part == nil {
		return
	}
	wakeMs, wakes := s.part.wakeMs()
	if !wakes {
		return
	}
	number := s.wake
	s.w.at(max(s.w.nowUs+1, s.worldUs(wakeMs)), func() {
		if s.wake == number {
			s.hand(func() { s.part.tick() })
		}
	})
}

// note takes note of something.
func (w *World) note(s *server, kind NoteKind, format string, args ...any) {
	e := Note{AtUs: w.nowUs, Kind: kind, Text: fmt.Sprintf(format, args...), Message: w.sent}
	if s != nil {
		e.Server = s.id
	}
	w.notes = append(w.notes, e)
}

// timed is something to do at a moment.
type timed struct {
	us    int64
	order int
	do    func()
}

// agenda is a heap of them: the earliest first, then in the order they were planned.
type agenda []timed

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].us < a[j].us || a[i].us == a[j].us && a[i].order < a[j].order
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(timed)) }
func (a *agenda) Pop() any {
	last := len(*a) - 1
	x := (*a)[last]
	*a = (*a)[:last]
	return x
}

// random is splitmix64: the same numbers for the same seed, on every system.
type random struct{ state uint64 }

func (r *random) next() uint64 {
	r.state += 0x9e3779b97f4a7c15
	z := r.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// between returns a number from least to most.
func (r *random) between(least, most int64) int64 {
	return least + int64(r.next()%uint64(most-least+1))
}
