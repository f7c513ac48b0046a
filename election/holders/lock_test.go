package holders_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/conclavetest"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/file"
	"github.com/conclave-project/conclave/election/backend/zookeeper"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/holders"
	"github.com/conclave-project/conclave/election/record"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/bubble"
)

// judge watches the readers and writers.
type judge struct {
	t     testing.TB
	limit int // of readers

	mu               sync.Mutex
	readers, writers int // that act
	most             int // readers at once
	read, wrote      int // how often
	token            election.Token
	longest          time.Duration // the longest time that a writer has waited
}

func (j *judge) begin(writes bool, token election.Token) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if writes {
		j.writers++
		j.wrote++
	} else {
		j.readers++
		j.read++
		j.most = max(j.most, j.readers)
	}
	if j.writers > 1 || j.writers == 1 && j.readers > 0 || j.readers > j.limit {
		j.t.Errorf("%d write and %d read at once", j.writers, j.readers)
	}
	if token <= j.token {
		j.t.Errorf("token %d after that of a writer, %d", token, j.token)
	}
	if writes {
		j.token = token
	}
}

func (j *judge) end(writes bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if writes {
		j.writers--
	} else {
		j.readers--
	}
}

func (j *judge) waited(d time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.longest = max(j.longest, d)
}

const (
	lockReaders = 3
	lockLease   = 10 * time.Second
	lockGrace   = lockLease / 5 // the Elector's default
)

// use reads or writes once, and ends as chance decides: it finishes; it is partitioned from the
// store and acts until its context ends; it is killed and releases nothing; or it is
// partitioned while it waits, perhaps with the gate and some of the places.
func use(ctx context.Context, j *judge, c clock.Clock, way *cut, id string, writes bool, rng *rand.Rand) {
	l, err := holders.NewRWLock(way, "tables", lockReaders, election.Options{ID: id, Lease: lockLease, Clock: c})
	if err != nil {
		j.t.Error(err)
		return
	}
	fate, lasts := rng.IntN(6), time.Duration(rng.IntN(10_000))*time.Millisecond
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if fate == 3 {
		at := time.Duration(rng.IntN(15_000)) * time.Millisecond
		defer time.AfterFunc(at, func() { way.off.Store(true) }).Stop()
		defer time.AfterFunc(at+2*lockLease, cancel).Stop()
	}
	act := l.Read
	if writes {
		act = l.Write
	}
	began := time.Now()
	err = act(ctx, func(ctx context.Context, held holders.Held) error {
		if writes {
			j.waited(time.Since(began))
		}
		j.begin(writes, held.Token())
		defer j.end(writes)
		if err := held.Err(); err != nil && ctx.Err() == nil { // an operator may have asked for it already
			j.t.Errorf("it acts, and does not hold the lock: %v", err)
		}
		select {
		case <-time.After(lasts):
		case <-ctx.Done():
			time.Sleep(lockGrace / 2)
			return nil
		}
		switch fate {
		case 1: // frozen
			way.off.Store(true)
			<-ctx.Done()
			time.Sleep(lockGrace / 2)
			if ctx.Err() == nil || held.Err() == nil {
				j.t.Error("its context ended, and it holds the lock still")
			}
		case 2: // killed
			way.off.Store(true)
		}
		return nil
	})
	if errors.Is(err, election.ErrInvalid) {
		j.t.Error(err)
	}
}

// waitMax is how long a writer waits at most while readers come without end: for the readers
// that act, for both other writers, and for the leases of holders that were killed on the way.
const waitMax = 3*10*time.Second + 9*lockLease

// TestWritersExcludeAllAndDoNotStarve: readers come again as soon as they have read, so that
// there is always a reader unless something holds the readers back.
func TestWritersExcludeAllAndDoNotStarve(t *testing.T) {
	const readers, writers, seeds = 8, 3, 8
	stores := map[string]func(c clock.Clock) election.Backend{
		"queue":  func(c clock.Clock) election.Backend { return electiontest.NewStore(c) },
		"record": func(c clock.Clock) election.Backend { return record.New(record.NewMemory(c), record.Options{Clock: c}) },
	}
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(seeds) {
				synctest.Test(t, func(t *testing.T) { contend(t, open, seed, readers, writers) })
			}
		})
	}
}

func contend(t *testing.T, open func(clock.Clock) election.Backend, seed uint64, readers, writers int) {
	c := bubble.Clock(1)
	store := open(c)
	if closer, ok := store.(interface{ Close() error }); ok {
		defer func() { _ = closer.Close() }() // ends the goroutines that watch for those that were killed
	}
	j := &judge{t: t, limit: lockReaders}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for i := range readers + writers {
		writes := i >= readers
		all.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			for ctx.Err() == nil {
				use(ctx, j, c, &cut{backend: store}, fmt.Sprint("c", i), writes, rng)
				if writes {
					sleep(ctx, time.Duration(rng.IntN(60_000))*time.Millisecond)
				}
			}
		})
	}
	limit := waitMax
	if seed%2 == 1 { // a writer that is asked to give up the gate waits for it again
		limit *= 3
		all.Go(func() { meddle(ctx, store.(election.Operator), rand.New(rand.NewPCG(seed, 99))) })
	}
	all.Wait()
	if j.most != lockReaders || j.wrote < 20 || j.read < 50 || j.longest > limit {
		t.Errorf("seed %d: %d read at once at most, %d reads, %d writes, a writer waited %v", seed, j.most, j.read, j.wrote, j.longest)
	}
	t.Logf("seed %d: %d reads, %d writes, a writer waited %v", seed, j.read, j.wrote, j.longest)
}

// meddle is an operator that asks holders in turn to give up the gate or a place.
func meddle(ctx context.Context, store election.Operator, rng *rand.Rand) {
	for ctx.Err() == nil {
		sleep(ctx, time.Duration(rng.IntN(20_000))*time.Millisecond)
		name := "tables/gate"
		if place := rng.IntN(lockReaders + 1); place > 0 {
			name = fmt.Sprint("tables/places/", place)
		}
		_ = store.Ask(ctx, name, election.Request{}) // perhaps nobody has it
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// TestLockOnRealBackends: a number is read, and written again a moment later, by processes that
// know nothing of each other.
func TestLockOnRealBackends(t *testing.T) {
	dir := t.TempDir()
	servers := conclavetest.Start(t).Servers()
	backends := map[string]func() (election.Backend, error){
		"file":      func() (election.Backend, error) { return file.New(dir) },
		"zookeeper": func() (election.Backend, error) { return zookeeper.New(servers, zookeeper.Options{}) },
	}
	for name, open := range backends {
		t.Run(name, func(t *testing.T) {
			const writes = 4
			j := &judge{t: t, limit: lockReaders}
			number, done := 0, atomic.Int32{}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var all sync.WaitGroup
			for i := range 6 {
				backend, err := open()
				if err != nil {
					t.Fatal(err)
				}
				if closer, ok := backend.(interface{ Close() error }); ok {
					defer func() { _ = closer.Close() }()
				}
				l, err := holders.NewRWLock(backend, "tables", lockReaders, election.Options{ID: fmt.Sprint("c", i), Lease: 4 * time.Second})
				if err != nil {
					t.Fatal(err)
				}
				act, writer := l.Read, i < 2
				if writer {
					act = l.Write
				}
				all.Go(func() {
					for n := 0; done.Load() < 2 && ctx.Err() == nil; n++ {
						err := act(ctx, func(_ context.Context, held holders.Held) error {
							j.begin(writer, held.Token())
							defer j.end(writer)
							before := number
							awaittest.RealTime(2*time.Millisecond, "others may act in it, if anything lets them")
							if writer {
								number = before + 1
							} else if number != before {
								t.Error("it was written while it was read")
							}
							return nil
						})
						if err != nil {
							t.Errorf("c%d: %v", i, err)
						}
						if writer && n+1 == writes {
							done.Add(1)
							return
						}
					}
				})
			}
			all.Wait()
			if number != 2*writes || j.read == 0 {
				t.Errorf("%d writes, %d of %d are there; %d reads", j.wrote, number, 2*writes, j.read)
			}
		})
	}
}

func TestLockReturnsWhatTheFunctionDoes(t *testing.T) {
	l, err := holders.NewRWLock(electiontest.NewStore(nil), "tables", 2, election.Options{ID: "a", Lease: lockLease})
	if err != nil {
		t.Fatal(err)
	}
	own := errors.New("own")
	for name, act := range map[string]func(context.Context, func(context.Context, holders.Held) error) error{"read": l.Read, "write": l.Write} {
		if err := act(t.Context(), func(context.Context, holders.Held) error { return own }); !errors.Is(err, own) {
			t.Errorf("%s: %v", name, err)
		}
		if err := act(t.Context(), func(context.Context, holders.Held) error { return nil }); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		ended, cancel := context.WithCancel(t.Context())
		if err := act(ended, func(ctx context.Context, _ holders.Held) error { cancel(); <-ctx.Done(); return ctx.Err() }); !errors.Is(err, context.Canceled) {
			t.Errorf("%s that is told to end: %v", name, err)
		}
		err := act(ended, func(context.Context, holders.Held) error { t.Error("it acts"); return nil })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s without time: %v", name, err)
		}
	}
	for name, act := range map[string]func(context.Context, func(context.Context, holders.Held) error) error{"read": l.Read, "write": l.Write} {
		if err := act(t.Context(), func(context.Context, holders.Held) error { runtime.Goexit(); return nil }); err == nil {
			t.Errorf("%s whose function ends its goroutine has no error", name)
		}
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("a panic is lost")
			}
		}()
		_ = l.Write(t.Context(), func(context.Context, holders.Held) error { panic("own") })
	}()
	if err := l.Write(t.Context(), func(context.Context, holders.Held) error { return nil }); err != nil {
		t.Errorf("after a panic: %v", err)
	}
}

// TestFunctionThatIsOverIsNotStuck: the store is not reached for longer than a lease while a
// candidate waits at the gate, before its function has begun, or after a function that has
// ended in time. OnStuck would make the program end itself.
func TestFunctionThatIsOverIsNotStuck(t *testing.T) {
	for _, writes := range []bool{false, true} {
		for _, waits := range []bool{false, true} {
			t.Run(fmt.Sprintf("writes %v waits %v", writes, waits), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { outage(t, writes, waits) })
			})
		}
	}
}

func outage(t *testing.T, writes, waits bool) {
	c, stuck, acted := bubble.Clock(1), atomic.Int32{}, atomic.Int32{}
	way := &cut{backend: electiontest.NewStore(c)}
	lock := func(id string, way election.Backend) *holders.RWLock {
		l, err := holders.NewRWLock(way, "tables", 1, election.Options{ID: id, Lease: lockLease, Clock: c,
			OnStuck: func(election.Leadership) { stuck.Add(1) }})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	act := func(how func(context.Context, func(context.Context, holders.Held) error) error) {
		all.Go(func() {
			_ = how(ctx, func(ctx context.Context, _ holders.Held) error { acted.Add(1); <-ctx.Done(); return nil })
		})
		time.Sleep(lockLease)
	}
	if waits {
		act(lock("other", way.backend).Read)
	}
	if mine := lock("mine", way); writes {
		act(mine.Write)
	} else {
		act(mine.Read)
	}
	way.off.Store(true)
	time.Sleep(4 * lockLease)
	way.off.Store(false)
	time.Sleep(2 * lockLease)
	view, _ := see(ctx, way.backend, "tables/gate")
	if n := acted.Load(); n != 1 || (view.Leader == "mine") != waits {
		t.Errorf("%d functions have begun; %q is at the gate", n, view.Leader)
	}
	if n := stuck.Load(); n > 0 {
		t.Errorf("%d functions are stuck, it is said", n)
	}
	cancel()
	all.Wait()
	for _, name := range []string{"tables/gate", "tables/places/1"} {
		if view, _ := see(t.Context(), way.backend, name); view.Leader != "" || len(view.Waiters) > 0 {
			t.Errorf("%s is left to %q and %v", name, view.Leader, view.Waiters)
		}
	}
}

// TestWriterComesBeforeAReaderAtTheGate: the reader waits for a place, lets the writer through,
// and campaigns for no place before it has the gate again.
func TestWriterComesBeforeAReaderAtTheGate(t *testing.T) {
	store := electiontest.NewStore(nil)
	order, release := make(chan string, 3), make(chan struct{})
	var all sync.WaitGroup
	start := func(id string, writes bool) {
		l, err := holders.NewRWLock(store, "tables", 1, election.Options{ID: id, Lease: lockLease})
		if err != nil {
			t.Fatal(err)
		}
		act := l.Read
		if writes {
			act = l.Write
		}
		all.Go(func() {
			err := act(t.Context(), func(context.Context, holders.Held) error { order <- id; <-release; return nil })
			if err != nil {
				t.Errorf("%s: %v", id, err)
			}
		})
	}
	atGate := func(id string) {
		t.Helper()
		for view := range store.Observe(t.Context(), "tables/gate") {
			if view.Leader == id {
				return
			}
		}
	}
	start("first", false)
	if id := <-order; id != "first" {
		t.Fatal(id)
	}
	start("reader", false)
	atGate("reader")
	start("writer", true)
	atGate("writer")
	close(release)
	if one, two := <-order, <-order; one != "writer" || two != "reader" {
		t.Errorf("%s comes before %s", one, two)
	}
	all.Wait()
}

// TestCandidateWhoseLogIsBlockedStopsNobody: its OnEvent does not return. It is at the gate,
// and loses it: as a reader, to a writer; as a writer, to an operator. When it campaigns again
// it must not keep the gate while it waits for itself.
func TestCandidateWhoseLogIsBlockedStopsNobody(t *testing.T) {
	for _, writes := range []bool{false, true} {
		t.Run(fmt.Sprint("writes ", writes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { blocked(t, writes) })
		})
	}
}

func blocked(t *testing.T, writes bool) {
	c := bubble.Clock(1)
	store := electiontest.NewStore(c)
	lock := func(id string, onEvent func(election.Event)) *holders.RWLock {
		l, err := holders.NewRWLock(store, "tables", 1, election.Options{ID: id, Lease: lockLease, Clock: c, OnEvent: onEvent})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	full, endFirst := make(chan struct{}), make(chan struct{})
	defer func() {
		close(full)
		cancel()
		all.Wait()
	}()
	// The first has the only place, and the one with the blocked log waits for it at the gate.
	all.Go(func() {
		_ = lock("first", nil).Read(ctx, func(context.Context, holders.Held) error { <-endFirst; return nil })
	})
	synctest.Wait()
	second := lock("second", func(election.Event) { <-full })
	all.Go(func() {
		act := second.Read
		if writes {
			act = second.Write
		}
		_ = act(ctx, func(context.Context, holders.Held) error { return nil })
	})
	time.Sleep(lockLease)
	if view, _ := see(ctx, store, "tables/gate"); view.Leader != "second" {
		t.Fatalf("%q is at the gate", view.Leader)
	}
	wrote := make(chan error, 1)
	all.Go(func() {
		wrote <- lock("third", nil).Write(ctx, func(context.Context, holders.Held) error { return nil })
	})
	if writes {
		if err := store.Ask(ctx, "tables/gate", election.Request{}); err != nil {
			t.Error(err)
		}
	}
	time.Sleep(3 * lockLease)
	close(endFirst)
	time.Sleep(3 * lockLease)
	read := make(chan error, 1)
	all.Go(func() {
		read <- lock("fourth", nil).Read(ctx, func(context.Context, holders.Held) error { return nil })
	})
	time.Sleep(3 * lockLease)
	for what, done := range map[string]chan error{"write": wrote, "read": read} {
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		default:
			view, _ := see(ctx, store, "tables/gate")
			t.Errorf("nobody can %s: %q is at the gate", what, view.Leader)
		}
	}
}

// longGate is a store that keeps the gate for longer than the places.
type longGate struct{ *electiontest.Store }

func (l longGate) Acquire(ctx context.Context, claim election.Claim) (election.Grant, error) {
	grant, err := l.Store.Acquire(ctx, claim)
	if claim.Election == "tables/gate" {
		grant.Lease *= 3
	}
	return grant, err
}

// TestWriterThatWasFrozenFindsItOutAtOnce, with the first question that it asks, although it is
// still at the gate.
func TestWriterThatWasFrozenFindsItOutAtOnce(t *testing.T) {
	c := clock.NewManual(0)
	l, err := holders.NewRWLock(longGate{electiontest.NewStore(c)}, "tables", 2, election.Options{ID: "a", Lease: lockLease, Clock: c})
	if err != nil {
		t.Fatal(err)
	}
	err = l.Write(t.Context(), func(ctx context.Context, held holders.Held) error {
		if ctx.Err() != nil || held.Err() != nil {
			t.Errorf("it acts, and does not hold the lock: %v", held.Err())
		}
		c.Advance(2 * lockLease)
		if ctx.Err() == nil {
			t.Error("two leases later its context has not ended")
		}
		if held.Err() == nil {
			t.Error("two leases later it holds the lock")
		}
		return nil
	})
	if lost := (*election.LostError)(nil); !errors.As(err, &lost) {
		t.Errorf("Write: %v", err)
	}
}

// TestWriterThatLosesAPlaceIsTold, and keeps the place until it has ended: an operator takes
// one place away.
func TestWriterThatLosesAPlaceIsTold(t *testing.T) {
	store := electiontest.NewStore(nil)
	l, err := holders.NewRWLock(store, "tables", 2, election.Options{ID: "a", Lease: lockLease})
	if err != nil {
		t.Fatal(err)
	}
	err = l.Write(t.Context(), func(ctx context.Context, held holders.Held) error {
		request := election.Request{}
		if err := store.Ask(ctx, "tables/places/2", request); err != nil {
			t.Error(err)
		}
		<-ctx.Done()
		if err := held.Err(); !errors.Is(err, election.ErrResigned) {
			t.Errorf("it holds the lock: %v", err)
		}
		if view, _ := see(ctx, store, "tables/places/2"); view.Leader != "a" {
			t.Errorf("%q has the place while the function runs", view.Leader)
		}
		return nil
	})
	if err != nil {
		t.Errorf("Write: %v", err)
	}
}

// TestActThatIsCutShortIsNoSuccess: an operator asks the holder that acts to give up its place,
// and the function stops half way.
func TestActThatIsCutShortIsNoSuccess(t *testing.T) {
	store := electiontest.NewStore(nil)
	l, err := holders.NewRWLock(store, "tables", 1, election.Options{ID: "a", Lease: lockLease})
	if err != nil {
		t.Fatal(err)
	}
	for what, test := range map[string]struct {
		act  func(context.Context, func(context.Context, holders.Held) error) error
		name string
	}{
		"a reader's place": {l.Read, "tables/places/1"},
		"a writer's place": {l.Write, "tables/places/1"},
		"a writer's gate":  {l.Write, "tables/gate"},
	} {
		for how, returns := range map[string]func(context.Context) error{
			"the error of its context": func(ctx context.Context) error { return ctx.Err() },
			"the cause":                context.Cause,
			"what it met":              func(ctx context.Context) error { return fmt.Errorf("step 3: %w", ctx.Err()) },
		} {
			err := test.act(t.Context(), func(ctx context.Context, _ holders.Held) error {
				if err := store.Ask(ctx, test.name, election.Request{}); err != nil {
					t.Error(err)
				}
				<-ctx.Done()
				return returns(ctx)
			})
			if !errors.Is(err, election.ErrResigned) {
				t.Errorf("%s is given up, and the function returns %s: %v", what, how, err)
			}
		}
	}
}

func see(ctx context.Context, b election.Backend, name string) (election.View, error) {
	for view, err := range b.Observe(context.WithoutCancel(ctx), name) {
		return view, err
	}
	return election.View{}, nil
}

func TestReadersAreBounded(t *testing.T) {
	for _, n := range []int{0, holders.PlacesMax + 1} {
		if _, err := holders.NewRWLock(electiontest.NewStore(nil), "tables", n, election.Options{}); !errors.Is(err, election.ErrInvalid) {
			t.Errorf("%d readers: %v", n, err)
		}
	}
}

// Many hosts serve from the tables; one at a time replaces them.
func ExampleRWLock() {
	host, err := holders.NewRWLock(electiontest.NewStore(nil), "tables", 8, election.Options{ID: "host-1"})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	err = host.Read(ctx, func(context.Context, holders.Held) error {
		fmt.Println("others may read, too")
		return nil
	})
	fmt.Println(err)
	err = host.Write(ctx, func(_ context.Context, held holders.Held) error {
		fmt.Println("nobody else acts; the token is", held.Token())
		return nil
	})
	fmt.Println(err)
	// Output:
	// others may read, too
	// <nil>
	// nobody else acts; the token is 2
	// <nil>
}

// A Held that nobody gave is not held, as the zero Leadership does not lead.
func TestZeroHeldIsNotHeld(t *testing.T) {
	var never holders.Held
	if err := never.Err(); !errors.Is(err, election.ErrNotLeader) || never.Token() != 0 {
		t.Errorf("token %d, %v", never.Token(), err)
	}
}
