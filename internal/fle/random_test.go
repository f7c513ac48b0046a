package fle

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// patienceMs is how long the model of zab in this test tolerates a leader that does not lead,
// or too few followers.
const patienceMs = 300

// cast names one life of a participant in one round.
type cast struct {
	id    quorum.ID
	life  int
	round int64
}

// world is a network with faults, a model of what zab does with the outcome, and the ghost
// record against which safety is checked.
type world struct {
	*network
	t            *testing.T
	r            *rand.Rand
	set          quorum.Set
	participants quorum.IDs
	last         map[link]Notification // what a new connection repeats
	oneSlot      bool
	history      map[quorum.ID]Look
	sinceMs      map[quorum.ID]int64 // when the present role began to look wrong
	epoch        int64

	life     map[quorum.ID]int
	votes    map[cast][]Vote
	decided  map[cast]quorum.ID
	deciders map[int64]map[quorum.ID]quorum.ID // round -> decider -> leader
	reborn   map[int64]bool                    // rounds in which one server decided in two lives
	led      map[quorum.ID]bool
	seen     map[State]int
	doubts   int
}

func newWorld(t *testing.T, seed int64) *world {
	w := &world{network: newNetwork(), t: t, r: rand.New(rand.NewSource(seed)),
		last: make(map[link]Notification), history: make(map[quorum.ID]Look), sinceMs: make(map[quorum.ID]int64),
		epoch: 1, life: make(map[quorum.ID]int), votes: make(map[cast][]Vote), decided: make(map[cast]quorum.ID),
		deciders: make(map[int64]map[quorum.ID]quorum.ID), reborn: make(map[int64]bool),
		led: make(map[quorum.ID]bool), seen: make(map[State]int)}
	w.oneSlot = w.r.Intn(2) == 0
	var participants []quorum.Participant
	for i := range 3 + w.r.Intn(3) {
		v := quorum.Participant{ID: quorum.ID(i + 1), Weight: 1}
		if seed%5 == 0 {
			v.Weight, v.Group = int64(w.r.Intn(3)), int64(i%3)
		}
		participants = append(participants, v)
	}
	participants[0].Weight = 1 // otherwise nobody might have any
	set, err := quorum.NewHierarchical(participants...)
	if err != nil {
		t.Fatal(err)
	}
	w.set, w.participants = set, set.Participants()
	w.saw = w.check
	for i := range len(participants) + w.r.Intn(3) {
		id := quorum.ID(i + 1)
		w.history[id] = Look{zk.MakeZxid(1, uint32(w.r.Intn(3))), 1}
		w.start(id)
	}
	return w
}

// start begins a life.
func (w *world) start(id quorum.ID) {
	delete(w.down, id)
	w.life[id]++
	cfg := Config{Observer: !w.participants.Has(id), ResendMinMs: 50, ResendMaxMs: 800, FinalizeMs: int64(w.r.Intn(2) * 20)}
	w.add(id, cfg, Ensemble{Committed: w.set})
	w.step(id, w.history[id])
}

// check verifies fle-F1 to fle-F5 for every effect, from outside.
func (w *world) check(id quorum.ID, effect Effect) {
	switch e := effect.(type) {
	case Send:
		key := cast{id, w.life[id], e.Round}
		if e.State == Looking && w.participants.Has(id) && !slices.Contains(w.votes[key], e.Vote) {
			w.votes[key] = append(w.votes[key], e.Vote)
			if before := w.votes[key]; len(before) > 1 && !e.outranks(before[len(before)-2], w.set, w.set) {
				w.fail("fle-F2: %d votes %v in round %d", id, before, e.Round)
			}
		}
		way := link{id, e.To}
		w.last[way] = e.Notification
		if w.oneSlot && len(w.ways[way]) > 0 {
			w.ways[way] = w.ways[way][:len(w.ways[way])-1]
		}
	case Elected:
		w.elected(id, e)
	case Doubt:
		w.doubts++
		w.sinceMs[id] = 1 // long ago: it leaves at the next check
	}
}

func (w *world) elected(id quorum.ID, e Elected) {
	w.seen[e.State]++
	w.sinceMs[id] = 0
	if e.State == Leading {
		if e.Leader != id || w.set.Weight(id) == 0 {
			w.fail("fle-F5: %d leads by a vote for %v", id, e.Vote)
		}
		w.led[id] = true
	}
	if e.Joined {
		if e.Leader != id && !w.led[e.Leader] {
			w.fail("fle-F4: %d joins %d, which never led", id, e.Leader)
		}
		return
	}
	if !w.participants.Has(id) {
		w.fail("fle-F8: %d elects %d without a vote", id, e.Leader)
	}
	key := cast{id, w.life[id], e.Round}
	if leader, twice := w.decided[key]; twice {
		w.fail("fle-F1: %d decides for %d and for %d in round %d", id, leader, e.Leader, e.Round)
	}
	w.decided[key] = e.Leader
	w.backed(id, e)
	w.oneLeader(id, e)
}

// backed checks fle-F3: a quorum gave the votes behind a decision, and none of its members had
// a better history.
func (w *world) backed(id quorum.ID, e Elected) {
	supporters := w.machines[id].supporters
	if !w.set.Enough(supporters) {
		w.fail("fle-F3: %d decides with %v", id, supporters)
	}
	for _, supporter := range supporters {
		found := false
		for life := 1; life <= w.life[supporter]; life++ {
			votes := w.votes[cast{supporter, life, e.Round}]
			found = found || slices.Contains(votes, e.Vote)
		}
		if !found {
			w.fail("fle-F3: %d counts a vote of %d for %v in round %d that was not given", id, supporter, e.Vote, e.Round)
		}
	}
}

// oneLeader checks the end of fle-F1. It cannot hold over several lives: a restarted server
// begins at round 1 again.
func (w *world) oneLeader(id quorum.ID, e Elected) {
	round := w.deciders[e.Round]
	if round == nil {
		round = make(map[quorum.ID]quorum.ID)
		w.deciders[e.Round] = round
	}
	if _, again := round[id]; again {
		w.reborn[e.Round] = true
	}
	round[id] = e.Leader
	followed := make(map[quorum.ID]quorum.IDs)
	enough := 0
	for _, participant := range w.participants {
		leader, ok := round[participant]
		if !ok {
			continue
		}
		before := followed[leader]
		with := append(slices.Clone(before), participant)
		followed[leader] = with
		if w.set.Enough(with) && !w.set.Enough(before) {
			enough++
		}
	}
	if enough > 1 && !w.reborn[e.Round] {
		w.fail("fle-F1: round %d has two leaders with a quorum: %v", e.Round, followed)
	}
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	tail := w.log[max(0, len(w.log)-60):]
	w.t.Fatalf("%s\n%s", strings.Join(tail, "\n"), fmt.Sprintf(format, args...))
}

// zab is the model of what follows an election: a server that cannot work with the outcome
// looks again; one that can gets an epoch.
func (w *world) zab() {
	for _, id := range w.ids {
		m := w.machines[id]
		if w.down[id] || m.State() == Looking {
			continue
		}
		if w.works(id, m) {
			w.sinceMs[id] = 0
			continue
		}
		if w.sinceMs[id] == 0 {
			w.sinceMs[id] = w.nowMs
		}
		if w.nowMs-w.sinceMs[id] >= patienceMs {
			w.step(id, w.history[id])
		}
	}
}

func (w *world) works(id quorum.ID, m *Machine) bool {
	if m.State() != Leading {
		leader := m.Vote().Leader
		return !w.down[leader] && w.linked(id, leader) && w.machines[leader].State() == Leading && attached(m, w.machines[leader])
	}
	with := quorum.MakeIDs(id)
	for _, other := range w.ids {
		if o := w.machines[other]; !w.down[other] && other != id && o.State() != Looking && o.Vote().Leader == id && w.linked(id, other) && attached(o, m) {
			with.Add(other)
		}
	}
	if !w.set.Enough(with) {
		return false
	}
	if !m.synced {
		w.epoch++
	}
	for _, other := range with {
		if !w.machines[other].synced {
			w.history[other] = Look{zk.MakeZxid(uint32(w.epoch), uint32(w.r.Intn(3))), w.epoch}
			w.step(other, Synced{w.epoch})
		}
	}
	return true
}

// attached reports whether a learner's connection is to this leadership, and not to an earlier
// one of the same server.
func attached(learner, leader *Machine) bool {
	return !learner.synced || leader.synced && learner.current.Epoch == leader.current.Epoch
}

func (w *world) linked(a, b quorum.ID) bool { return !w.cut[link{a, b}] && !w.cut[link{b, a}] }

// trouble causes one random fault.
func (w *world) trouble() {
	a, b := w.ids[w.r.Intn(len(w.ids))], w.ids[w.r.Intn(len(w.ids))]
	way, some := w.pick(w.r)
	switch what := w.r.Intn(100); {
	case what < 60:
		if some {
			w.deliver(way)
		}
	case what < 70:
		w.pass(int64(w.r.Intn(40)))
	case what < 80:
		if some {
			w.ways[way] = w.ways[way][1:] // lost
		}
	case what < 86:
		w.reconnect(link{a, b})
	case what < 90:
		w.cut[link{a, b}] = true
	case what < 97:
		delete(w.cut, link{a, b})
	case what < 98:
		w.say("%d crashes", a)
		w.crash(a)
	default:
		if w.down[a] {
			w.say("%d starts", a)
			w.start(a)
		}
	}
}

// reconnect replaces a connection: messages on the old one are gone, and the last message comes
// again.
func (w *world) reconnect(way link) {
	delete(w.ways, way)
	if last, ok := w.last[way]; ok && !w.cut[way] && !w.down[way.to] && !w.down[way.from] {
		w.ways[way] = []Notification{last}
	}
}

func (w *world) pass(ms int64) {
	w.advance(ms)
	w.zab()
}

// heal ends all faults and lets time pass until all agree, or too much time has passed.
func (w *world) heal() {
	w.cut = make(map[link]bool)
	for _, id := range w.ids {
		if w.down[id] {
			w.start(id)
		}
	}
	for end := w.nowMs + 20_000; w.nowMs < end; {
		for range 4 * len(w.ids) {
			if way, ok := w.pick(w.r); ok {
				w.deliver(way)
			}
		}
		if w.agreed() {
			return
		}
		w.pass(5)
	}
	w.fail("no agreement in 20 s without faults")
}

func (w *world) agreed() bool {
	leader := w.machines[w.ids[0]].Vote().Leader
	for _, id := range w.ids {
		m := w.machines[id]
		want := Following
		switch {
		case id == leader:
			want = Leading
		case !w.participants.Has(id):
			want = Observing
		}
		if m.State() != want || m.Vote().Leader != leader || !m.synced {
			return false
		}
	}
	return true
}

func run(t *testing.T, seed int64) *world {
	w := newWorld(t, seed)
	for range 3 {
		for range 400 {
			w.trouble()
		}
		w.heal()
	}
	return w
}

// Servers crash and restart, over a network that loses, repeats, delays and cuts. fle-F1 to
// fle-F5 hold throughout, and without faults all agree.
func TestElectionsAreSafeAndEnd(t *testing.T) {
	seen := make(map[State]int)
	doubts := 0
	for seed := range int64(400) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := run(t, seed)
			for state, n := range w.seen {
				seen[state] += n
			}
			doubts += w.doubts
		})
	}
	t.Logf("%d led, %d followed, %d observed, %d doubts", seen[Leading], seen[Following], seen[Observing], doubts)
	if seen[Leading] < 400 || seen[Observing] < 400 || doubts == 0 {
		t.Fatal("the runs did not reach what they should")
	}
}

func TestTheSameSeedGivesTheSameTrace(t *testing.T) {
	for seed := range int64(20) {
		a, b := run(t, seed), run(t, seed)
		if !slices.Equal(a.log, b.log) {
			t.Fatalf("seed %d: two traces", seed)
		}
	}
}
