package fle

import (
	"math/rand"
	"slices"
	"testing"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// alone returns one machine of participants 1 to n that has received nothing yet.
type alone struct {
	t *testing.T
	m *Machine
}

func newAlone(t *testing.T, id quorum.ID, participants ...quorum.ID) *alone {
	cfg := Config{ID: id, ResendMinMs: 200, ResendMaxMs: 60_000}
	return &alone{t, New(cfg, Ensemble{Committed: quorum.NewMajority(participants...), Version: 5})}
}

func (a *alone) look(zxid zk.Zxid, epoch int64) []Effect { return a.m.Step(0, Look{zxid, epoch}) }

func (a *alone) receive(from quorum.ID, state State, leader quorum.ID, zxid zk.Zxid, epoch, round int64) []Effect {
	return a.m.Step(0, Received{from, Notification{State: state, Vote: Vote{leader, zxid, epoch}, Round: round, Version: 2}})
}

func (a *alone) is(state State, leader quorum.ID) {
	a.t.Helper()
	if a.m.State() != state || a.m.Vote().Leader != leader {
		a.t.Fatalf("is %v %v, want %v %d", a.m.State(), a.m.Vote(), state, leader)
	}
}

// A server whose data directory was wiped votes with zxid -1: its vote is not counted, and it
// counts no votes itself.
func TestZookeeper261ServersWithoutHistoryElectNobody(t *testing.T) {
	a := newAlone(t, 1, 1, 2, 3)
	a.look(-1, 0)
	a.receive(2, Looking, 2, -1, 0, 1)
	a.receive(3, Looking, 3, -1, 0, 1)
	a.is(Looking, 1)
	a.receive(2, Looking, 2, 7, 0, 1)
	a.receive(3, Looking, 2, 7, 0, 1)
	a.is(Looking, 1)

	b := newAlone(t, 1, 1, 2, 3)
	b.look(4, 0)
	b.receive(2, Looking, 1, 4, 0, 2) // raises the round to 2, a quorum with 1
	b.is(Leading, 1)
	c := newAlone(t, 1, 1, 2, 3)
	c.look(4, 0)
	c.receive(3, Looking, 3, -1, 9, 1)
	c.is(Looking, 1)
}

// 2 and 4 still follow 5, which has died: there is no leader to join.
func TestZookeeper569ALeaderMustSayThatItLeads(t *testing.T) {
	a := newAlone(t, 1, 1, 2, 3, 4, 5)
	a.look(4, 1)
	a.receive(2, Following, 5, 4, 2, 7)
	a.receive(4, Following, 5, 4, 2, 7)
	a.receive(3, Following, 5, 4, 2, 7)
	a.is(Looking, 1)
	a.receive(5, Leading, 5, 4, 2, 7)
	a.is(Following, 5)
}

// 1 led once; the others have not noticed that it restarted.
func TestZookeeper975And1514AnOldVoteMakesNobodyLeader(t *testing.T) {
	a := newAlone(t, 1, 1, 2, 3)
	a.look(4, 1)
	a.receive(2, Following, 1, 4, 1, 3)
	a.receive(3, Following, 1, 4, 1, 3)
	a.is(Looking, 1)
	if a.m.Round() != 1 {
		t.Fatalf("round %d was taken from an old vote", a.m.Round())
	}
}

// The order of votes is total and transitive: no votes outrank each other in a circle.
func TestZookeeper1419TheOrderOfVotesIsTransitive(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	set, err := quorum.NewHierarchical(quorum.Participant{ID: 1, Weight: 1}, quorum.Participant{ID: 2, Weight: 1},
		quorum.Participant{ID: 3, Weight: 0}, quorum.Participant{ID: 4, Weight: 2})
	if err != nil {
		t.Fatal(err)
	}
	draw := func() Vote {
		if r.Intn(9) == 0 {
			return noVote
		}
		return Vote{quorum.ID(r.Intn(5)), zk.Zxid(r.Intn(3) - 1), int64(r.Intn(3) - 1)}
	}
	for range 200_000 {
		a, b, c := draw(), draw(), draw()
		if a.outranks(b, set, set) && b.outranks(a, set, set) || a.outranks(a, set, set) {
			t.Fatalf("%v and %v outrank each other", a, b)
		}
		if a.outranks(b, set, set) && b.outranks(c, set, set) && !a.outranks(c, set, set) {
			t.Fatalf("%v outranks %v outranks %v, but not the last", a, b, c)
		}
		if able := set.Weight(a.Leader) > 0 && set.Weight(b.Leader) > 0; able && a != b && !a.outranks(b, set, set) && !b.outranks(a, set, set) {
			t.Fatalf("%v and %v have no order", a, b)
		}
	}
}

// Servers that joined at different times remember different zxids and rounds of the same
// leadership; and the epoch in their vote is the established one.
func TestZookeeper1732And1818ZxidAndRoundOfAFollowerDoNotCount(t *testing.T) {
	a := newAlone(t, 1, 1, 2, 3, 4, 5)
	a.look(4, 1)
	a.receive(2, Following, 5, 3, 2, 7)
	a.receive(3, Following, 5, 9, 2, 8)
	a.is(Looking, 1)
	a.receive(5, Leading, 5, 4, 2, 6)
	a.is(Following, 5)

	b := newAlone(t, 1, 1, 2, 3)
	b.look(4, 1)
	b.receive(2, Following, 3, 4, 1, 7) // not in step yet
	b.receive(3, Leading, 3, 4, 2, 7)
	b.is(Looking, 1)

	c := newAlone(t, 2, 1, 2, 3)
	c.look(4, 1)
	c.receive(3, Looking, 3, 4, 1, 1)
	c.is(Following, 3)
	c.m.Step(0, Synced{2})
	for _, e := range c.receive(1, Looking, 1, 4, 1, 1) {
		if send, ok := e.(Send); !ok || send.Epoch != 2 || send.Leader != 3 {
			t.Fatalf("a latecomer is told %v", e)
		}
	}
}

// Observers send to participants only, and an observer's vote is not counted.
func TestZookeeper1807ObserversDialNobodyButParticipants(t *testing.T) {
	observer := New(Config{ID: 9, Observer: true, ResendMinMs: 1}, Ensemble{Committed: quorum.NewMajority(1, 2, 3)})
	for _, e := range observer.Step(0, Look{4, 1}) {
		if send, ok := e.(Send); !ok || send.To > 3 {
			t.Fatalf("%v", e)
		}
	}
	if sent := observer.Step(0, Received{8, Notification{State: Observing, Vote: Vote{3, 4, 1}, Round: 1}}); len(sent) != 0 {
		t.Fatalf("observers talk: %v", sent)
	}
	a := newAlone(t, 1, 1, 2, 3)
	a.look(4, 1)
	a.receive(9, Looking, 1, 4, 1, 1)
	a.receive(2, Observing, 1, 4, 1, 1)
	a.receive(9, Following, 1, 4, 1, 1)
	a.is(Looking, 1)
}

// Seen with ZooKeeper 3.8.6: participants that look answer an observer with the vote for the
// leader that has just died, and with the new round.
func TestAnObserverDoesNotElectTheDeadLeaderOfOthers(t *testing.T) {
	o := &alone{t, New(Config{ID: 9, Observer: true, ResendMinMs: 200}, Ensemble{Committed: quorum.NewMajority(1, 2, 3)})}
	o.look(4, 1)
	o.receive(1, Looking, 3, 4, 1, 2)
	o.receive(2, Looking, 3, 4, 1, 2)
	o.is(Looking, nobody)
	o.receive(1, Following, 2, 4, 1, 2)
	o.receive(2, Leading, 2, 4, 1, 2)
	o.is(Observing, 2)
}

// Servers with the oldest format send no epoch: only the leader can be compared.
func TestZookeeper1810OldAndNewFormatsAreCountedTogether(t *testing.T) {
	a := newAlone(t, 1, 1, 2, 3, 4, 5)
	a.look(4, 1)
	for _, from := range []quorum.ID{2, 3} {
		a.m.Step(0, Received{from, Notification{State: Following, Vote: Vote{5, 4, 0}, Round: 7}})
	}
	a.receive(5, Leading, 5, 4, 2, 7)
	a.is(Following, 5)
}

// A newer configuration is taken from a peer only while looking, once, and an
// older or unknown one never (ZOOKEEPER-1783).
func TestZookeeper2212And1783ConfigurationsAreAdoptedOnlyWhileLooking(t *testing.T) {
	with := func(version, round int64) Received {
		return Received{2, Notification{State: Looking, Vote: Vote{2, 9, 1}, Round: round, ConfigVersion: version, Version: 2}}
	}
	a := newAlone(t, 1, 1, 2, 3, 4, 5)
	a.look(4, 1)
	adopts := func(effects []Effect) int {
		n := 0
		for _, e := range effects {
			if _, ok := e.(Adopt); ok {
				n++
			}
		}
		return n
	}
	for i, c := range []struct {
		version int64
		want    int
	}{{0, 0}, {4, 0}, {5, 0}, {6, 1}, {6, 0}, {7, 1}} {
		if got := adopts(a.m.Step(0, with(c.version, 1))); got != c.want {
			t.Fatalf("case %d: %d", i, got)
		}
	}
	a.receive(3, Looking, 2, 9, 1, 1)
	a.is(Following, 2)
	if adopts(a.m.Step(0, with(99, 9))) != 0 {
		t.Fatal("adopted while following")
	}
}

// Anybody may send a version above all others, which is then useless. The configurations of
// others are taken over all the same.
func TestForgedVersionDoesNotKeepConfigurationsOut(t *testing.T) {
	a := newAlone(t, 1, 1, 2, 3, 4, 5)
	a.look(4, 1)
	says := func(from quorum.ID, version int64) bool {
		n := Notification{State: Looking, Vote: Vote{from, 9, 1}, Round: 1, ConfigVersion: version, Version: 2}
		return slices.ContainsFunc(a.m.Step(0, Received{from, n}), func(e Effect) bool { _, is := e.(Adopt); return is })
	}
	for i, c := range []struct {
		from    quorum.ID
		version int64
		adopts  bool
	}{{2, 1 << 60, true}, {2, 1 << 60, false}, {3, 6, true}, {3, 6, false}, {2, 6, true}, {2, 6, false}} {
		if got := says(c.from, c.version); got != c.adopts {
			t.Errorf("case %d: server %d with version %d: %t", i, c.from, c.version, got)
		}
	}
	for id := range quorum.ID(10 * AskersMax) {
		says(100+id, 7)
	}
	if n := len(a.m.adopted); n > AskersMax+5 {
		t.Errorf("the versions of %d servers are remembered", n)
	}
}

// A participant that elected this server and looks again is reported; the vote that elected it,
// delivered late, is not.
func TestZookeeper3109ALeaderLearnsOfDisloyalParticipants(t *testing.T) {
	disloyal := func(effects []Effect) bool {
		for _, e := range effects {
			if _, ok := e.(Disloyal); ok {
				return true
			}
		}
		return false
	}
	a := newAlone(t, 3, 1, 2, 3)
	a.look(4, 1)
	a.receive(2, Looking, 3, 4, 1, 1)
	a.is(Leading, 3)
	if disloyal(a.receive(2, Looking, 3, 4, 1, 1)) || disloyal(a.receive(1, Looking, 1, 4, 1, 9)) {
		t.Fatal("no supporter has left")
	}
	left := a.receive(2, Looking, 1, 9, 1, 1)
	if !disloyal(left) {
		t.Fatal("a supporter left unseen")
	}
	// 3 alone is no quorum, and nobody could join it: it gives up at once.
	if !slices.Contains(left, Effect(Doubt{3})) {
		t.Fatalf("goes on alone: %v", left)
	}

	b := newAlone(t, 3, 1, 2, 3)
	b.look(4, 1)
	b.receive(2, Looking, 3, 4, 1, 1)
	b.receive(1, Following, 3, 4, 1, 1)
	if left := b.receive(2, Looking, 2, 4, 1, 2); !disloyal(left) || slices.Contains(left, Effect(Doubt{3})) {
		t.Fatalf("1 and 3 are a quorum: %v", left)
	}
}

// Votes of this round are judged by this round's votes. That the leader sent LEADING in another
// round proves nothing in this one.
func TestZookeeper3537VotesOfThisRoundAreJudgedAmongThemselves(t *testing.T) {
	a := newAlone(t, 1, 1, 2, 3, 4, 5)
	a.look(4, 1)
	a.receive(5, Leading, 5, 4, 8, 6) // another round and epoch
	a.receive(2, Following, 5, 4, 2, 1)
	a.receive(3, Following, 5, 4, 2, 1)
	a.receive(4, Following, 5, 4, 2, 1)
	a.is(Looking, 1)
	a.receive(5, Leading, 5, 4, 2, 1)
	a.is(Following, 5)
}

func TestWhatNoPeerWouldSayIsDropped(t *testing.T) {
	a := newAlone(t, 1, 1, 2, 3)
	if got := a.receive(9, Looking, 2, 4, 1, 1); len(got) != 0 {
		t.Fatal("acted before the first Look")
	}
	a.look(4, 1)
	for _, n := range []Notification{
		{State: 4, Round: 1, Vote: Vote{2, 9, 1}}, {State: -1, Round: 1, Vote: Vote{2, 9, 1}},
		{Round: -1, Vote: Vote{2, 9, 1}}, {Round: roundMax + 1, Vote: Vote{2, 9, 1}},
	} {
		if got := a.m.Step(0, Received{2, n}); len(got) != 0 {
			t.Fatalf("%+v: %v", n, got)
		}
	}
	a.receive(1, Looking, 3, 9, 9, 9) // from itself
	a.receive(2, Looking, 77, 9, 9, 1)
	a.is(Looking, 1)
	for id := range quorum.ID(1000) {
		a.receive(id+100, Looking, 1, 4, 1, 1)
	}
	if len(a.m.asked) > AskersMax+3 {
		t.Fatalf("fle-F7: %d askers are remembered", len(a.m.asked))
	}
}

// A single message with a round that no honest peer has reached would take everybody to a round
// that cannot grow any more.
func TestOneForgedRoundDoesNotEndElections(t *testing.T) {
	for _, round := range []int64{1 << 33, roundMax - 1, roundMax} {
		w := newNetwork()
		elected := 0
		w.saw = func(_ quorum.ID, e Effect) {
			if _, ok := e.(Elected); ok {
				elected++
			}
		}
		participants := quorum.NewMajority(1, 2, 3)
		for id := quorum.ID(1); id <= 3; id++ {
			w.add(id, Config{ResendMinMs: 200, ResendMaxMs: 1000}, Ensemble{Committed: participants})
		}
		forged := Notification{State: Looking, Vote: Vote{3, zk.MakeZxid(1, 3), 1}, Round: round, Version: 2}
		for try := 1; try <= 3; try++ {
			w.step(1, Received{2, forged})
			for id := quorum.ID(1); id <= 3; id++ {
				w.step(id, Look{zk.MakeZxid(1, uint32(id)), 1})
			}
			w.step(1, Received{2, forged})
			w.step(2, Received{3, Notification{State: Leading, Vote: forged.Vote, Round: round, Version: 2}})
			w.quiesce()
			w.advance(2000)
			w.quiesce()
			if elected != 3*try {
				t.Fatalf("round %d: %d decisions in %d elections of 3 servers", round, elected, try)
			}
		}
	}
}

// Forged rounds, each within the bound, lead one server away from the others. Or a forged
// message tells it that they follow in the highest round. The votes of its own next round must
// count for the others all the same, because it is needed.
func TestServerThatForgedRoundsHaveLedAwayIsFollowed(t *testing.T) {
	const jumps = 5
	for name, forge := range map[string]func(*network){
		"looking": func(w *network) {
			for i := range jumps {
				n := Notification{State: Looking, Vote: Vote{3, 0, 0}, Round: 1 + int64(i+1)*roundJumpMax, Version: 2}
				w.step(1, Received{3, n})
			}
		},
		"decided": func(w *network) {
			v := Vote{3, zk.MakeZxid(1, 3), 1}
			w.step(1, Received{3, Notification{State: Leading, Vote: v, Round: roundMax, Version: 2}})
			w.step(1, Received{2, Notification{State: Following, Vote: v, Round: roundMax, Version: 2}})
			if s := w.machines[1].State(); s != Following {
				t.Fatalf("it is %v", s)
			}
			w.step(1, Look{zk.MakeZxid(1, 1), 1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newNetwork()
			for id := quorum.ID(1); id <= 2; id++ { // 3 is down
				w.add(id, Config{ResendMinMs: 200, ResendMaxMs: 1000}, Ensemble{Committed: quorum.NewMajority(1, 2, 3)})
			}
			w.step(1, Look{zk.MakeZxid(1, 1), 1})
			w.down[2] = true
			forge(w)
			w.down[2] = false
			w.step(2, Look{zk.MakeZxid(1, 2), 1})
			w.quiesce()
			for id, want := range map[quorum.ID]State{1: Following, 2: Leading} {
				if m := w.machines[id]; m.State() != want || m.Round() > 1+jumps*roundJumpMax {
					t.Errorf("server %d is %v in round %d", id, m.State(), m.Round())
				}
			}
		})
	}
}

// Two forged rounds, each within the bound, have led a running ensemble beyond it. A server
// that is restarted begins at round 0, and joins the quorum all the same.
func TestRestartedServerJoinsAHighRound(t *testing.T) {
	running := newAlone(t, 2, 1, 2, 3)
	running.look(4, 1)
	running.receive(3, Looking, 1, 1, 1, roundJumpMax)
	running.receive(3, Looking, 1, 1, 1, 2*roundJumpMax)
	if running.m.Round() != 2*roundJumpMax {
		t.Fatalf("the running server is in round %d", running.m.Round())
	}
	restarted := newAlone(t, 1, 1, 2, 3)
	restarted.look(4, 1)
	restarted.receive(3, Leading, 3, 4, 1, running.m.Round())
	restarted.receive(2, Following, 3, 4, 1, running.m.Round())
	if s := restarted.m.State(); s != Following {
		t.Errorf("the restarted server is %v, in round %d", s, restarted.m.Round())
	}
}
