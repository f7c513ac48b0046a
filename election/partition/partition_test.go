package partition_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/partition"
	"github.com/conclave-project/conclave/election/record"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/bubble"
)

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

// group is members in one process, and what they did.
type group struct {
	t          *testing.T
	partitions int
	change     func(*partition.Options)

	mu      sync.Mutex
	changed chan struct{}
	owners  []string         // by the functions that run
	tokens  []election.Token // the highest token
	leads   []election.Leadership
	moves   int // the number of functions that have ended
	gap     int // while watched, the most partitions without an owner at a time
	watched bool
}

func newGroup(t *testing.T, partitions int, change func(*partition.Options)) *group {
	return &group{t: t, partitions: partitions, change: change, changed: make(chan struct{}),
		owners: make([]string, partitions), tokens: make([]election.Token, partitions), leads: make([]election.Leadership, partitions)}
}

// member is a member that runs.
type member struct {
	*partition.Member
	stop  context.CancelFunc
	ended chan error
}

// join starts a member, which is stopped at the latest when the test ends.
func (g *group) join(backend election.Backend, id string) *member {
	g.t.Helper()
	o := partition.Options{Partitions: g.partitions, MembersMax: 8, Election: election.Options{ID: id, Lease: 2 * time.Second,
		Retry: 5 * time.Millisecond, RetryMax: 50 * time.Millisecond}}
	if g.change != nil {
		g.change(&o)
	}
	m, err := partition.New(backend, "group", o)
	if err != nil {
		g.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	one := &member{m, cancel, make(chan error, 1)}
	go func() { one.ended <- m.Run(ctx, g.own) }()
	g.t.Cleanup(func() { one.end(g.t) })
	return one
}

// end stops a member and waits for its end.
func (m *member) end(t *testing.T) {
	m.stop()
	m.await(t)
}

// await returns the error with which Run has ended.
func (m *member) await(t *testing.T) error {
	t.Helper()
	select {
	case err := <-m.ended:
		m.ended <- err
		return err
	case <-time.After(patience):
		t.Fatalf("member %s does not end", m.ID())
		return nil
	}
}

// own is the function of all members: it records who owns what (partition-P1). On a
// busy machine, a function may still run some time after its leadership has ended:
// only the leadership itself tells the truth.
func (g *group) own(ctx context.Context, p int, lead election.Leadership) error {
	g.mu.Lock()
	if g.owners[p] != "" && g.leads[p].Err() == nil {
		g.t.Errorf("partition %d is owned by %s and %s", p, g.owners[p], lead.ID())
	}
	if lead.Token() <= g.tokens[p] {
		g.t.Errorf("partition %d: token %d after %d", p, lead.Token(), g.tokens[p])
	}
	g.owners[p], g.tokens[p], g.leads[p] = lead.ID(), lead.Token(), lead
	g.tell()
	g.mu.Unlock()
	<-ctx.Done()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.tokens[p] == lead.Token() {
		g.owners[p] = ""
	}
	g.moves++
	g.tell()
	return nil
}

func (g *group) tell() {
	close(g.changed)
	g.changed = make(chan struct{})
	if free := g.free(); g.watched && free > g.gap {
		g.gap = free
	}
}

func (g *group) free() (n int) {
	for _, owner := range g.owners {
		if owner == "" {
			n++
		}
	}
	return n
}

// await waits until the partitions are owned as wanted.
func (g *group) await(what string, wanted func(owned map[string]int) bool) {
	g.t.Helper()
	late := time.After(patience)
	for {
		g.mu.Lock()
		owned := make(map[string]int)
		for _, owner := range g.owners {
			owned[owner]++
		}
		changed := g.changed
		g.mu.Unlock()
		if wanted(owned) {
			return
		}
		select {
		case <-changed:
		case <-late:
			g.t.Fatalf("waited in vain for %s; owned are %v", what, owned)
		}
	}
}

// awaitEven waits until all partitions are owned by these members, evenly.
func (g *group) awaitEven(members ...string) {
	g.t.Helper()
	g.await("even shares of "+strings.Join(members, ", "), func(owned map[string]int) bool {
		least, most, sum := g.partitions, 0, 0
		for _, m := range members {
			least, most, sum = min(least, owned[m]), max(most, owned[m]), sum+owned[m]
		}
		return sum == g.partitions && most-least <= 1
	})
}

// during returns how many partitions changed hands while f ran, and how many had no
// owner at the same time.
func (g *group) during(f func()) (moves, gap int) {
	g.mu.Lock()
	before := g.moves
	g.watched, g.gap = true, 0
	g.mu.Unlock()
	f()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.watched = false
	return g.moves - before, g.gap
}

func TestJoinersGetTheirShareByTheFewestMoves(t *testing.T) { synctest.Test(t, joinersGetTheirShare) }

func joinersGetTheirShare(t *testing.T) {
	c := bubble.Clock(1)
	store := electiontest.NewStore(c)
	g := newGroup(t, 12, func(o *partition.Options) { o.Election.Clock, o.MaxMoves = c, 2 })
	g.join(store, "a")
	g.awaitEven("a")
	for _, step := range []struct {
		id    string
		all   []string
		moves int
	}{
		{"b", []string{"a", "b"}, 6},
		{"c", []string{"a", "b", "c"}, 4},
		{"d", []string{"a", "b", "c", "d"}, 3},
		{"e", []string{"a", "b", "c", "d", "e"}, 2},
	} {
		moves, gap := g.during(func() {
			g.join(store, step.id)
			g.awaitEven(step.all...)
		})
		// A function begins some time after its election was seen, so a gap may look
		// longer than it is.
		if moves != step.moves || gap > 4 {
			t.Errorf("when %s came %d partitions moved, expected %d; %d had no owner at a time", step.id, moves, step.moves, gap)
		}
	}
}

func TestWhoStopsIsFollowedByAllOthersEvenly(t *testing.T) {
	store := electiontest.NewStore(nil)
	g := newGroup(t, 10, nil)
	a := g.join(store, "a")
	g.join(store, "b")
	g.join(store, "c")
	g.awaitEven("a", "b", "c")
	a.end(t)
	if err := a.await(t); !errors.Is(err, context.Canceled) {
		t.Errorf("Run returned %v", err)
	}
	g.awaitEven("b", "c")
}

// partition-P2: a member whose link is cut loses everything to the others within its lease.
func TestPartitionsOfALostMemberAreTakenOver(t *testing.T) {
	store := electiontest.NewStore(nil)
	g := newGroup(t, 9, func(o *partition.Options) { o.Election.Lease = 400 * time.Millisecond })
	link := electiontest.NewFaulty(store)
	g.join(link, "a")
	g.join(store, "b")
	g.join(store, "c")
	g.awaitEven("a", "b", "c")
	link.Cut()
	cut := time.Now()
	g.await("a to know that it is partitioned", func(owned map[string]int) bool { return owned["a"] == 0 })
	g.awaitEven("b", "c")
	t.Logf("taken over after %v", time.Since(cut))
	link.Heal()
	g.awaitEven("a", "b", "c")
}

// partition-P5: a member that leaves hands over one partition at a time, while the
// rest go on.
func TestWhoLeavesHandsOver(t *testing.T) { synctest.Test(t, whoLeavesHandsOver) }

func whoLeavesHandsOver(t *testing.T) {
	c := bubble.Clock(1)
	store := electiontest.NewStore(c)
	warmed := make(chan string, 100)
	g := newGroup(t, 8, func(o *partition.Options) {
		o.Election.Clock = c
		id := o.Election.ID
		o.Warm = func(_ context.Context, p int) error {
			warmed <- fmt.Sprint(id, p)
			return nil
		}
	})
	a := g.join(store, "a")
	g.awaitEven("a")
	g.join(store, "b")
	g.awaitEven("a", "b")
	moves, gap := g.during(func() {
		a.Leave()
		a.Leave() // does nothing more
		g.awaitEven("b")
	})
	if err := a.await(t); err != nil {
		t.Errorf("Run returned %v", err)
	}
	if moves != 4 || gap > 2 { // a function begins after its election was seen
		t.Errorf("%d partitions moved, expected 4; %d had no owner at a time", moves, gap)
	}
	if n := len(warmed); n < 8 { // 4 to b as it arrived, 4 as a left
		t.Errorf("%d were warmed", n)
	}
}

func TestWhoIsAloneLeavesAtOnce(t *testing.T) {
	g := newGroup(t, 4, nil)
	a := g.join(electiontest.NewStore(nil), "a")
	g.awaitEven("a")
	a.Leave()
	if err := a.await(t); err != nil {
		t.Errorf("Run returned %v", err)
	}
}

// plain is a backend that cannot hand over, and shows no waiters.
type plain struct{ election.Backend }

func TestBackendThatCannotHandOverMovesByResigning(t *testing.T) { synctest.Test(t, movesByResigning) }

func movesByResigning(t *testing.T) {
	c := bubble.Clock(1)
	store := plain{electiontest.NewStore(c)}
	g := newGroup(t, 6, func(o *partition.Options) { o.Election.Clock = c })
	a := g.join(store, "a")
	g.awaitEven("a")
	moves, _ := g.during(func() {
		g.join(store, "b")
		g.awaitEven("a", "b")
	})
	if moves != 3 {
		t.Errorf("%d moves", moves)
	}
	a.Leave()
	g.awaitEven("b")
}

func TestMoreMembersThanPartitionsOrSeats(t *testing.T) {
	store := electiontest.NewStore(nil)
	g := newGroup(t, 2, func(o *partition.Options) { o.MembersMax = 3 })
	members := map[string]*member{}
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		members[id] = g.join(store, id)
	}
	for len(members) > 1 {
		g.await("two owners", func(owned map[string]int) bool { return owned[""] == 0 && len(owned) == 2 })
		g.mu.Lock()
		first := g.owners[0]
		g.mu.Unlock()
		if members[first] == nil {
			t.Fatalf("%s owns a partition and was stopped", first)
		}
		members[first].end(t)
		delete(members, first)
	}
	for last := range members {
		g.awaitEven(last)
	}
}

// TestWhoLostItsSeatHandsOver what it owns: another member has taken the seat and replaces it.
func TestWhoLostItsSeatHandsOver(t *testing.T) {
	store := record.New(record.NewMemory(nil), record.Options{})
	g := newGroup(t, 6, func(o *partition.Options) { o.MembersMax = 2 })
	a := g.join(store, "a")
	g.join(store, "b")
	g.awaitEven("a", "b")
	c := g.join(store, "c")
	ctx := awaittest.Within(t)
	seated := func(m *member) bool { return slices.Contains(m.View().Members, m.ID()) }
	awaittest.Until(t, "the other has its seat", func() bool {
		for _, seat := range []string{"group/seats/0", "group/seats/1"} {
			for view := range store.Observe(ctx, seat) {
				if view.Leader == "a" {
					_ = store.Ask(ctx, seat, election.Request{Token: view.Token})
				}
				break
			}
		}
		return !seated(a) && seated(c)
	})
	g.awaitEven("b", "c")
}

func TestUnhealthyMemberGivesUp(t *testing.T) {
	store := electiontest.NewStore(nil)
	var mu sync.Mutex
	var sick error
	checks := 0
	g := newGroup(t, 6, func(o *partition.Options) {
		o.Election.HealthEvery, o.Election.HealthFailures = 20*time.Millisecond, 2
		if o.Election.ID == "a" {
			o.Election.Health = func(context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				checks++
				return sick
			}
		}
	})
	g.join(store, "a")
	g.join(store, "b")
	g.awaitEven("a", "b")
	mu.Lock()
	sick = errors.New("the disk is full")
	mu.Unlock()
	g.awaitEven("b")
	mu.Lock()
	sick = nil
	mu.Unlock()
	g.awaitEven("a", "b")
}

func TestErrorOfAFunctionEndsTheMember(t *testing.T) {
	own := errors.New("my own")
	m, err := partition.New(electiontest.NewStore(nil), "group", partition.Options{Partitions: 3})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err = m.Run(ctx, func(ctx context.Context, p int, _ election.Leadership) error {
		if p == 1 {
			return own
		}
		<-ctx.Done()
		return nil
	})
	if !errors.Is(err, own) || !strings.Contains(err.Error(), "partition 1") {
		t.Errorf("Run returned %v", err)
	}
}

func TestPanicOfAFunctionComesOutOfRun(t *testing.T) {
	m, err := partition.New(electiontest.NewStore(nil), "group", partition.Options{Partitions: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if text := fmt.Sprint(recover()); !strings.Contains(text, "oh no") {
			t.Errorf("recovered %s", text)
		}
	}()
	_ = m.Run(t.Context(), func(ctx context.Context, p int, _ election.Leadership) error {
		if p == 2 {
			panic("oh no")
		}
		<-ctx.Done()
		return nil
	})
}

func TestFunctionThatReturnsIsCalledAgain(t *testing.T) {
	m, err := partition.New(electiontest.NewStore(nil), "group", partition.Options{Partitions: 1,
		Election: election.Options{Retry: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	var tokens []election.Token
	if err := m.Run(t.Context(), func(_ context.Context, _ int, lead election.Leadership) error {
		tokens = append(tokens, lead.Token())
		if len(tokens) == 3 {
			m.Leave()
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if len(tokens) < 3 || !slices.IsSorted(tokens) {
		t.Errorf("tokens %v", tokens)
	}
}

// TestFunctionsSeeTheContextOfRun: its values, and why it ended.
func TestFunctionsSeeTheContextOfRun(t *testing.T) {
	type key struct{}
	m, err := partition.New(electiontest.NewStore(nil), "group", partition.Options{Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	why := errors.New("the machine is needed for something else")
	ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "value"))
	var value any
	var cause error
	err = m.Run(ctx, func(ctx context.Context, _ int, _ election.Leadership) error {
		value = ctx.Value(key{})
		cancel(why)
		<-ctx.Done()
		cause = context.Cause(ctx)
		return nil
	})
	if value != "value" || !errors.Is(cause, why) || !errors.Is(err, why) {
		t.Errorf("value %v, cause %v, Run returned %v", value, cause, err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	store := electiontest.NewStore(nil)
	for _, o := range []partition.Options{
		{}, {Partitions: -1}, {Partitions: partition.PartitionsMax + 1}, {Partitions: 1, MembersMax: -1},
		{Partitions: 1, MembersMax: 1001}, {Partitions: 1, MaxMoves: -1},
		{Partitions: 1, Election: election.Options{Lease: time.Nanosecond}},
	} {
		if _, err := partition.New(store, "group", o); !errors.Is(err, election.ErrInvalid) {
			t.Errorf("taken: %+v", o)
		}
	}
	if _, err := partition.New(store, "/group", partition.Options{Partitions: 1}); err == nil {
		t.Error("a bad name was taken")
	}
	m, err := partition.New(store, "group", partition.Options{Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	err = m.Run(t.Context(), func(ctx context.Context, _ int, _ election.Leadership) error {
		if err := m.Run(ctx, nil); !errors.Is(err, election.ErrRunning) {
			t.Errorf("a second Run: %v", err)
		}
		m.Leave()
		<-ctx.Done()
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A member reports the group as it is.
func TestViewShowsMembersAndOwners(t *testing.T) {
	store := electiontest.NewStore(nil)
	views := make(chan partition.View, 1000)
	g := newGroup(t, 3, func(o *partition.Options) {
		if o.Election.ID == "a" {
			o.OnView = func(v partition.View) { views <- v }
		}
	})
	a := g.join(store, "a")
	g.join(store, "b")
	g.awaitEven("a", "b")
	late := time.After(patience)
	for {
		select {
		case v := <-views:
			owned := slices.Clone(v.Owners)
			slices.Sort(owned)
			even := slices.Equal(owned, []string{"a", "a", "b"}) || slices.Equal(owned, []string{"a", "b", "b"})
			if even && slices.Equal(v.Members, []string{"a", "b"}) && !slices.Contains(v.Tokens, 0) {
				if now := a.View(); len(now.Owners) != 3 {
					t.Errorf("View is %+v", now)
				}
				return
			}
		case <-late:
			t.Fatal("the view does not come")
		}
	}
}

// Members arrive, stop, leave and are partitioned at random; in the end, the remaining
// members own all partitions in even shares, and no partition ever had two owners.
func TestMembersThatComeAndGo(t *testing.T) {
	for range 20 {
		seed := rand.Uint64()
		synctest.Test(t, func(t *testing.T) { comeAndGo(t, seed) })
	}
}

func comeAndGo(t *testing.T, seed uint64) {
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	awhile := func() { time.Sleep(time.Duration(random.Int64N(int64(400 * time.Millisecond)))) }
	c := bubble.Clock(1)
	store := electiontest.NewStore(c)
	g := newGroup(t, 7, func(o *partition.Options) {
		o.Election.Clock, o.Election.Lease, o.MaxMoves = c, 300*time.Millisecond, 2
	})
	type one struct {
		*member
		link *electiontest.Faulty
	}
	alive := map[string]one{}
	for i := range 40 {
		if random.IntN(2) == 0 {
			awhile()
		}
		names := slices.Sorted(maps.Keys(alive))
		action := random.IntN(5)
		if len(alive) < 2 || action < 2 && len(alive) < 6 {
			id, link := fmt.Sprint("m", i), electiontest.NewFaulty(store)
			alive[id] = one{g.join(link, id), link}
			continue
		}
		id := names[random.IntN(len(names))]
		switch action {
		case 2:
			alive[id].end(t)
			delete(alive, id)
		case 3:
			alive[id].Leave()
			delete(alive, id)
		case 4:
			alive[id].link.Cut()
			awhile() // the length of the fault
			alive[id].link.Heal()
		}
	}
	g.awaitEven(slices.Collect(maps.Keys(alive))...)
}
