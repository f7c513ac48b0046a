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
	sent    int // the number of the last message sent
	cut     map[way]bool
	caught  []catch
	notes   []Note
	rules   []*Rule
	done    int // number of actions carried out
	stepped bool
}

// system is one of the algorithms, as it runs on the servers.
type system interface {
	// names returns the names of the servers, in the order in which they are drawn.
	names(count int) []string
	// start creates the part of a server that was down, from its disk.
	start(s *server)
	// died is called when the process of a server has ended; its disk stays.
	died(s *server)
	// wipe empties the disk of a server that is down.
	wipe(s *server)
	// do carries out an action of the algorithm. It returns false if it does not know the
	// verb.
	do(a Action) (bool, error)
	// rules returns the rules that must hold.
	rules() []*Rule
	// check checks the rules.
	check()
}

// part is the part of the algorithm that runs on one server.
type part interface {
	tick()
	// wakeMs returns when the part wants its next tick, by the server's clock.
	wakeMs() (int64, bool)
	receive(from *server, payload any)
	view(v *Server)
}

// server is one server, up or down.
type server struct {
	w       *World
	id      string
	part    part // nil while it is down
	paused  bool
	late    []func() // events that arrived while it was paused
	life    int      // incremented at each start
	startUs int64    // when its clock got its current rate
	ppm     int64    // microseconds that its clock gains per second
	gainUs  int64    // microseconds gained before startUs
	wake    int      // number of its last wake-up call
}

// way is one direction between two servers.
type way struct{ from, to string }

// New returns the world of a spec at time 0, with all servers started.
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

// Spec returns the spec of the world, including the actions done since.
func (w *World) Spec() Spec { return w.spec }

// NowUs returns the time, in microseconds since the beginning.
func (w *World) NowUs() int64 { return w.nowUs }

// Run lets time pass up to a given time, in microseconds, and carries out the actions that
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

// pass carries out everything that happens up to a time.
func (w *World) pass(toUs int64) {
	for len(w.agenda) > 0 && w.agenda[0].us <= toUs {
		next := heap.Pop(&w.agenda).(timed)
		w.nowUs = max(w.nowUs, next.us)
		next.do()
	}
	w.nowUs = max(w.nowUs, toUs)
	w.flights = slices.DeleteFunc(w.flights, func(f *flight) bool { return f.over && f.seenUntilUs() <= w.nowUs })
}

// StepMax is the most that one Step advances, in microseconds.
const StepMax = 5_000_000

// Step runs until something visible has happened: a message is sent or arrives, a note, or
// an action. It stops after StepMax, and at the end of a run.
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

// at schedules do for a time, not before now.
func (w *World) at(us int64, do func()) {
	w.order++
	heap.Push(&w.agenda, timed{max(us, w.nowUs), w.order, do})
}

// after schedules do for a later time; it is dropped if the server has died by then.
func (s *server) after(us int64, do func()) {
	life := s.life
	s.w.at(s.w.nowUs+us, func() {
		if s.life == life {
			s.hand(do)
		}
	})
}

// find returns the server with a name, nil if there is none.
func (w *World) find(id string) *server {
	for _, s := range w.servers {
		if s.id == id {
			return s
		}
	}
	return nil
}

// nowMs returns the time on the server's clock.
func (s *server) nowMs() int64 { return s.localUs(s.w.nowUs) / 1000 }

func (s *server) localUs(us int64) int64 {
	return us + s.gainUs + (us-s.startUs)*s.ppm/1_000_000
}

// worldUs returns when the server's clock shows a time, rounded up.
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

// hand has a server do something: later if it is paused, never if it is down.
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

// resume lets a paused server continue with the events that arrived meanwhile.
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

// schedule schedules the next tick that the part wants.
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

// note records a note.
func (w *World) note(s *server, kind NoteKind, format string, args ...any) {
	e := Note{AtUs: w.nowUs, Kind: kind, Text: fmt.Sprintf(format, args...), Message: w.sent}
	if s != nil {
		e.Server = s.id
	}
	w.notes = append(w.notes, e)
}

// timed is something to do at a given time.
type timed struct {
	us    int64
	order int
	do    func()
}

// agenda is a heap of timed: earliest first, and in the order of scheduling.
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
