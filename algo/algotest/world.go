// Package algotest runs many members of an election in one thread, in simulated time, from one
// seed.
//
// It runs an algorithm under faults: messages that are late, lost, duplicated or reordered; links
// cut in one or both directions; members that crash between two effects, freeze, or have clocks
// of different rates. It returns traces, counts of messages, and every violation that it saw: two
// leaders in one term, or at one moment. Two runs with the same seed are the same run.
package algotest

import (
	"container/heap"
	"fmt"
	"slices"
	"strings"

	"github.com/conclave-project/conclave/algo"
)

// Maker makes a member of an algorithm that starts at the given local time with the state
// on its disk. Each start has a different seed.
type Maker func(nowMs int64, id algo.ID, state algo.State, seed uint64) algo.Machine

// Network is the behaviour of the network. Times are in microseconds.
type Network struct {
	DelayMinUs, DelayMaxUs int64
	// LossPerMille and TwicePerMille are the shares of messages that are lost and
	// duplicated.
	LossPerMille, TwicePerMille int
}

// World contains the members, the messages in flight, and the time.
type World struct {
	Network Network
	// Exclusive lets the world check that no two members lead at a time.
	Exclusive bool
	// Wrong are the violations that were seen.
	Wrong []string
	// Sent counts messages by type, Elections how often a member began to lead.
	Sent      map[algo.MessageType]int
	Elections int
	// QuietMs is how long a member's term and vote must be unchanged before it may forget
	// the election (Collapse): two leases.
	QuietMs int64
	// Collapses counts how often a member has forgotten the election.
	Collapses int
	// Trace, if not nil, is called with every record.
	Trace func(Record)
	// CrashPerMille is how often a member dies between two effects of a step.
	CrashPerMille int

	make    Maker
	random  *Random
	nowUs   int64
	queue   queue
	order   int // breaks ties in the queue
	members []*member
	cut     map[[2]algo.ID]bool
	terms   map[uint64]algo.ID // the leader of each term
}

// Record is one event: an effect of a member, a message that it sends, or a fault or
// command of the test.
type Record struct {
	AtMs   int64 // time of the world
	Member algo.ID
	Text   string
	// Of a message: the receiver, and when it arrives; 0 for never.
	To        algo.ID
	Type      algo.MessageType
	ArrivesMs int64
}

// member is one member, up or down.
type member struct {
	id      algo.ID
	machine algo.Machine // nil while it is down
	disk    algo.State
	wants   bool // it was given Campaign last
	told    bool // and the machine has processed it
	frozen  bool
	late    []func() // events that arrived while it was frozen
	startUs int64    // when its clock showed 0
	ppm     int64    // microseconds that its clock gains per second
	wake    int      // number of its last wake-up call
	lead    *algo.Lead
	untilMs int64
	termMs  int64           // when its term or vote last changed, or it started, by its clock
	life    int             // how often it has lost its disk
	met     map[algo.ID]int // the latest life of each other member that it has met; on disk
}

// New returns a world with these members, all down.
func New(seed uint64, maker Maker, ids []algo.ID) *World {
	w := &World{Network: Network{DelayMinUs: 1000, DelayMaxUs: 1000}, make: maker, random: NewRandom(seed),
		Sent: make(map[algo.MessageType]int), cut: make(map[[2]algo.ID]bool),
		terms: make(map[uint64]algo.ID)}
	for _, id := range ids {
		w.members = append(w.members, &member{id: id})
	}
	return w
}

// Random returns the world's random numbers.
func (w *World) Random() *Random { return w.random }

// NowMs returns the time of the world.
func (w *World) NowMs() int64 { return w.nowUs / 1000 }

func (w *World) member(id algo.ID) *member {
	for _, m := range w.members {
		if m.id == id {
			return m
		}
	}
	panic("algotest: no member " + string(id))
}

// nowMs returns the time on a member's clock.
func (m *member) nowMs(nowUs int64) int64 {
	return (nowUs + (nowUs-m.startUs)*m.ppm/1_000_000) / 1000
}

// worldUs returns when the member's clock shows the given time, rounded up.
func (m *member) worldUs(localMs, nowUs int64) int64 {
	ahead := localMs*1000 - (nowUs + (nowUs-m.startUs)*m.ppm/1_000_000)
	if ahead <= 0 {
		return nowUs
	}
	return nowUs + ahead*1_000_000/(1_000_000+m.ppm) + 2
}

// SetClock makes a member's clock gain the given number of microseconds per second.
func (w *World) SetClock(id algo.ID, ppm int64) {
	m := w.member(id)
	m.startUs, m.ppm = w.nowUs, ppm
}

// Start starts a member that is down, with the state on its disk.
func (w *World) Start(id algo.ID) {
	m := w.member(id)
	if m.machine != nil {
		return
	}
	m.machine = w.make(m.nowMs(w.nowUs), id, m.disk, w.random.Next())
	m.frozen, m.late, m.termMs = false, nil, m.nowMs(w.nowUs)
	w.note(id, "starts")
	if m.wants {
		w.step(m, algo.Campaign{})
		return
	}
	w.schedule(m)
}

// Crash kills a member. Its disk stays.
func (w *World) Crash(id algo.ID) {
	m := w.member(id)
	if m.machine != nil {
		w.note(id, "dies")
		w.kill(m)
	}
}

func (w *World) kill(m *member) {
	m.machine, m.lead, m.late, m.frozen, m.told = nil, nil, nil, false, false
	m.wake++
}

// Forget empties the disk of a member that is down. From then on it counts as a different
// member (Meet).
func (w *World) Forget(id algo.ID, state algo.State) {
	w.note(id, "loses its disk")
	m := w.member(id)
	m.disk, m.met = state, nil
	m.life++
}

// Linked reports whether two members are up and reach each other.
func (w *World) Linked(a, b algo.ID) bool {
	return w.Up(a) && w.Up(b) && !w.cut[[2]algo.ID{a, b}] && !w.cut[[2]algo.ID{b, a}]
}

// Life returns how often a member has lost its disk.
func (w *World) Life(id algo.ID) int { return w.member(id).life }

// Meet tells a member about the current disk of another. From then on, as long as it has
// its own disk, it accepts no messages from earlier lives of the other.
func (w *World) Meet(at, other algo.ID) {
	m := w.member(at)
	if m.met == nil {
		m.met = make(map[algo.ID]int)
	}
	m.met[other] = max(m.met[other], w.Life(other))
}

// Highest returns the highest term or floor that a member knows.
func (w *World) Highest(id algo.ID) uint64 {
	return max(w.Status(id).Term, w.member(id).disk.Term, w.member(id).disk.Floor)
}

// Collapse lets a member forget an election that is idle as far as it knows: everything
// except the floor.
func (w *World) Collapse(id algo.ID) {
	m := w.member(id)
	if m.machine == nil || m.frozen || m.told {
		return
	}
	s := m.machine.Status()
	if nowMs := m.nowMs(w.nowUs); s.Leader != "" || nowMs < s.PromisedMs || nowMs < m.termMs+w.QuietMs {
		return
	}
	w.note(id, "forgets the election")
	m.disk = algo.State{Floor: max(m.disk.Floor, s.Term)}
	m.machine = w.make(m.nowMs(w.nowUs), id, m.disk, w.random.Next())
	w.Collapses++
	w.schedule(m)
}

// SetDisk puts a state on a member's disk, before its first start.
func (w *World) SetDisk(id algo.ID, state algo.State) { w.member(id).disk = state }

// Freeze stops a member; events for it wait.
func (w *World) Freeze(id algo.ID) {
	if m := w.member(id); m.machine != nil && !m.frozen {
		w.note(id, "freezes")
		m.frozen = true
	}
}

// Thaw lets a frozen member continue.
func (w *World) Thaw(id algo.ID) {
	m := w.member(id)
	if m.machine == nil || !m.frozen {
		return
	}
	w.note(id, "thaws")
	m.frozen = false
	late := m.late
	m.late = nil
	for _, one := range late {
		one()
	}
	if m.machine != nil {
		w.step(m, algo.Tick{})
	}
}

// Cut cuts the direction from one member to another; Heal restores all directions.
func (w *World) Cut(from, to algo.ID) { w.cut[[2]algo.ID{from, to}] = true }

// Heal restores all directions.
func (w *World) Heal() { clear(w.cut) }

// Up reports whether a member is up and not frozen.
func (w *World) Up(id algo.ID) bool {
	m := w.member(id)
	return m.machine != nil && !m.frozen
}

// Status returns the status of a member that is up.
func (w *World) Status(id algo.ID) algo.Status {
	if m := w.member(id); m.machine != nil {
		return m.machine.Status()
	}
	return algo.Status{}
}

// Do gives an event to a member that is up. Campaign and Withdraw stay in effect after a
// crash and restart.
func (w *World) Do(id algo.ID, event algo.Event) {
	m := w.member(id)
	switch event.(type) {
	case algo.Campaign:
		m.wants = true
	case algo.Withdraw:
		m.wants = false
	}
	w.hand(m, event)
}

// hand gives an event to a member, later if it is frozen.
func (w *World) hand(m *member, event algo.Event) {
	switch {
	case m.machine == nil:
	case m.frozen:
		m.late = append(m.late, func() {
			if m.machine != nil {
				w.step(m, event)
			}
		})
	default:
		w.step(m, event)
	}
}

func (w *World) step(m *member, event algo.Event) {
	if _, ok := event.(algo.Campaign); ok {
		m.told = true
	}
	for _, effect := range slices.Clone(m.machine.Step(m.nowMs(w.nowUs), event)) {
		if w.CrashPerMille > 0 && w.random.Below(1000) < w.CrashPerMille {
			w.note(m.id, "dies")
			w.kill(m)
			return
		}
		w.carryOut(m, effect)
	}
	if _, ok := event.(algo.Withdraw); ok {
		m.told = false // events that were due earlier came first
	}
	w.schedule(m)
}

func (w *World) carryOut(m *member, effect algo.Effect) {
	if send, ok := effect.(algo.Send); ok {
		w.send(m, send)
		return
	}
	w.note(m.id, effect.String())
	switch e := effect.(type) {
	case algo.Persist:
		m.disk, m.termMs = e.State, m.nowMs(w.nowUs)
	case algo.Lead:
		w.onLead(m, e)
	case algo.Extend:
		m.untilMs = e.UntilMs
	case algo.Lost:
		m.lead = nil
	}
}

// onLead records a leadership and looks for another one at the same time.
func (w *World) onLead(m *member, e algo.Lead) {
	w.Elections++
	if m.lead != nil {
		w.wrong("algo-A3: %s leads twice without losing its leadership", m.id)
	}
	if !m.told {
		w.wrong("algo-A4: %s leads and does not want to", m.id)
	}
	if w.Exclusive {
		if other, ok := w.terms[e.Term]; ok {
			w.wrong("raft-T1: %s and %s lead in term %d", other, m.id, e.Term)
		}
		w.terms[e.Term] = m.id
		for _, id := range w.Leaders() {
			w.wrong("raft-T3: %s leads in term %d while %s considers itself leader", m.id, e.Term, id)
		}
	}
	m.lead, m.untilMs = &e, e.UntilMs
}

// Leaders returns the members that consider themselves leaders now, including frozen ones:
// they may act before they look at the clock.
func (w *World) Leaders() []algo.ID {
	var ids []algo.ID
	for _, m := range w.members {
		if m.lead != nil && (m.untilMs == 0 || m.nowMs(w.nowUs) < m.untilMs) {
			ids = append(ids, m.id)
		}
	}
	return ids
}

func (w *World) wrong(format string, args ...any) {
	w.Wrong = append(w.Wrong, fmt.Sprintf("%d ms: ", w.NowMs())+fmt.Sprintf(format, args...))
}

func (w *World) note(id algo.ID, text string) {
	if w.Trace != nil {
		w.Trace(Record{AtMs: w.NowMs(), Member: id, Text: text})
	}
}

// send sends a message once, twice or not at all.
func (w *World) send(m *member, e algo.Send) {
	w.Sent[e.Type]++
	cut := w.cut[[2]algo.ID{m.id, e.To}]
	copies := 1
	switch pick := w.random.Below(1000); {
	case cut || pick < w.Network.LossPerMille:
		copies = 0
	case pick < w.Network.LossPerMille+w.Network.TwicePerMille:
		copies = 2
	}
	record := Record{AtMs: w.NowMs(), Member: m.id, Text: e.Message.String(), To: e.To, Type: e.Type}
	message := algo.Received{From: m.id, Message: e.Message}
	message.Config.Members = slices.Clone(message.Config.Members)
	for range copies {
		atUs := w.nowUs + w.Network.DelayMinUs
		if span := w.Network.DelayMaxUs - w.Network.DelayMinUs; span > 0 {
			atUs += int64(w.random.Below(int(span)))
		}
		record.ArrivesMs = atUs / 1000
		to := w.member(e.To)
		life, toLife := m.life, to.life
		w.at(atUs, func() {
			if to.life == toLife && to.met[m.id] <= life {
				w.hand(to, message)
			}
		})
	}
	if w.Trace != nil {
		w.Trace(record)
	}
}

// schedule schedules the member's next tick.
func (w *World) schedule(m *member) {
	m.wake++
	if m.machine == nil {
		return
	}
	wakeMs, ok := m.machine.WakeMs()
	if !ok {
		return
	}
	number := m.wake
	w.at(max(w.nowUs+1, m.worldUs(wakeMs, w.nowUs)), func() {
		if m.wake == number {
			w.hand(m, algo.Tick{})
		}
	})
}

// At calls do at a time of the world, given in milliseconds from now.
func (w *World) At(inMs int64, do func()) { w.at(w.nowUs+inMs*1000, do) }

func (w *World) at(us int64, do func()) {
	w.order++
	heap.Push(&w.queue, timed{us, w.order, do})
}

// Run lets the given time pass.
func (w *World) Run(ms int64) {
	endUs := w.nowUs + ms*1000
	for len(w.queue) > 0 && w.queue[0].us <= endUs {
		next := heap.Pop(&w.queue).(timed)
		w.nowUs = next.us
		next.do()
	}
	w.nowUs = endUs
}

// Messages returns how many messages were sent, without heartbeats and their answers.
func (w *World) Messages() int {
	n := 0
	for messageType, count := range w.Sent {
		if !IsHeartbeat(messageType) {
			n += count
		}
	}
	return n
}

// IsHeartbeat reports whether messages of this type are sent repeatedly without end.
func IsHeartbeat(t algo.MessageType) bool {
	return t == algo.Heartbeat || t == algo.HeartbeatReply || t == algo.Alive
}

// String returns which members are up and which lead.
func (w *World) String() string {
	var b strings.Builder
	for _, m := range w.members {
		state := "dead"
		if m.machine != nil {
			s := m.machine.Status()
			state = fmt.Sprintf("leader=%s term=%d leads=%v frozen=%v", s.Leader, s.Term, s.Leads, m.frozen)
		}
		fmt.Fprintf(&b, "%s: %s\n", m.id, state)
	}
	return b.String()
}

// timed is something to do at a given time.
type timed struct {
	us    int64
	order int
	do    func()
}

type queue []timed

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].us < q[j].us || q[i].us == q[j].us && q[i].order < q[j].order
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(timed)) }
func (q *queue) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	*q = (*q)[:last]
	return x
}
