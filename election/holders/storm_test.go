package holders_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/holders"
	"github.com/conclave-project/conclave/election/record"
	virtual "github.com/conclave-project/conclave/internal/bubble"
	"github.com/conclave-project/conclave/internal/storm"
	"github.com/conclave-project/conclave/internal/storm/records"
)

// Machines hold places, read and write over records in memory, each over a link of its own and
// with a clock of its own, as wrong as clocks may be. Requests arrive late or are lost, links are
// cut, machines vanish, and operators make holders step down. Judged is:
//
//   - no more holders than places act at a time, no machine acts in two places, nobody acts
//     together with a writer, and all act up to the last moment;
//   - a writer's token is higher than those of all who acted before, and a reader's is higher
//     than those of all writers before;
//   - when all is whole every machine gets a place, reads and writes within wellWithin.
func TestHoldersThroughStorms(t *testing.T) {
	storm.Through(t, 5, func(t *testing.T, seed uint64) storm.Played { return newHoldersStorm(t, seed, nil) })
}

const (
	stormMachines = 4
	stormPlaces   = 2
	stormReaders  = 3
	wellWithin    = time.Minute
)

// holdersStorm is a set of machines over a store.
type holdersStorm struct {
	storm.Story
	t        *testing.T
	random   *rand.Rand
	memory   *record.Memory
	lease    time.Duration
	mutant   func(election.Backend) election.Backend
	machines []*holder
	last     int // number of the last machine
	calm     atomic.Bool
	slowest  time.Duration
	ended    sync.WaitGroup

	mu                  sync.Mutex
	holds, reads        int
	writes              int // at present
	tokens, wrote       election.Token
	held, read, written int // so far
}

// holder is a machine.
type holder struct {
	w      *holdersStorm
	id     string
	link   *virtual.Link
	stop   context.CancelFunc
	random *rand.Rand // for the goroutine of its places
	other  *rand.Rand // for the goroutine of its lock
	holds  atomic.Bool
	did    [3]atomic.Int64 // times that it held, read and wrote
}

func newHoldersStorm(t *testing.T, seed uint64, mutant func(election.Backend) election.Backend) *holdersStorm {
	w := &holdersStorm{Story: storm.Story{Began: time.Now()}, t: t, random: rand.New(rand.NewPCG(seed, 6)), mutant: mutant,
		memory: record.NewMemory(virtual.Clock(1))}
	w.lease = []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}[w.random.IntN(3)]
	for range stormMachines {
		w.start()
	}
	return w
}

// start begins a new machine.
func (w *holdersStorm) start() {
	w.last++
	m := &holder{w: w, id: fmt.Sprint("m", w.last), link: virtual.NewLink(w.random.Uint64(), 3*w.lease),
		random: rand.New(rand.NewPCG(w.random.Uint64(), 7)), other: rand.New(rand.NewPCG(w.random.Uint64(), 8))}
	m.link.Quiet = w.calm.Load
	its := virtual.DriftingClock(w.random)
	store := record.New(records.Store{Memory: w.memory, Link: m.link}, record.Options{Clock: its})
	var backend election.Backend = store
	if w.mutant != nil {
		backend = w.mutant(store)
	}
	options := election.Options{ID: m.id, Lease: w.lease, Clock: its, Retry: 50 * time.Millisecond, RetryMax: time.Second}
	places, err := holders.New(backend, "places", stormPlaces, options)
	if err != nil {
		w.t.Fatal(err)
	}
	lock, err := holders.NewRWLock(backend, "lock", stormReaders, options)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	var ended sync.WaitGroup
	ended.Go(func() { m.run(ctx, m.random, func(ctx context.Context) { m.hold(ctx, places) }) })
	ended.Go(func() { m.run(ctx, m.other, func(ctx context.Context) { m.use(ctx, lock) }) })
	w.ended.Go(func() {
		ended.Wait()
		_ = store.Close()
	})
	w.machines = append(w.machines, m)
}

// run does something again and again, sometimes with a limit.
func (m *holder) run(ctx context.Context, random *rand.Rand, do func(context.Context)) {
	for ctx.Err() == nil {
		one, cancel := context.WithCancel(ctx)
		if !m.w.calm.Load() && random.IntN(3) == 0 {
			one, cancel = context.WithTimeout(ctx, time.Duration(random.Int64N(int64(3*m.w.lease))))
		}
		do(one)
		cancel()
		select {
		case <-time.After(time.Duration(random.Int64N(int64(m.w.lease / 4)))):
		case <-ctx.Done():
		}
	}
}

// act lasts for a while, and no longer than its context.
func (m *holder) act(ctx context.Context, random *rand.Rand) {
	limit := 2 * m.w.lease
	if m.w.calm.Load() {
		limit = m.w.lease / 8
	}
	select {
	case <-time.After(time.Duration(random.Int64N(int64(limit)))):
	case <-ctx.Done():
	}
}

// hold acts in a place, up to the last moment of a lease that has run out.
func (m *holder) hold(ctx context.Context, places *holders.Candidate) {
	w := m.w
	err := places.Hold(ctx, func(ctx context.Context, place holders.Place) error {
		w.mu.Lock()
		w.holds++
		holds := w.holds
		w.held++
		w.mu.Unlock()
		if !m.holds.CompareAndSwap(false, true) {
			w.Breach("%s acts in two places", m.id)
		}
		defer m.holds.Store(false)
		if holds > stormPlaces {
			w.Breach("%s is one of %d that act in %d places", m.id, holds, stormPlaces)
		}
		m.act(ctx, m.random)
		if lost := (*election.LostError)(nil); errors.As(context.Cause(ctx), &lost) && lost.Reason == election.ReasonExpired {
			for place.Remaining() > 0 {
				time.Sleep(place.Remaining()/2 + time.Microsecond)
			}
		}
		w.mu.Lock()
		w.holds--
		w.mu.Unlock()
		m.did[0].Add(1)
		return nil
	})
	w.check(m, err)
}

// check checks the error of a call.
func (w *holdersStorm) check(m *holder, err error) {
	if errors.Is(err, election.ErrRunning) || errors.Is(err, election.ErrPermanent) {
		w.Breach("%s: %v", m.id, err)
	}
}

// use reads or writes.
func (m *holder) use(ctx context.Context, lock *holders.RWLock) {
	if m.other.IntN(3) == 0 {
		m.w.check(m, lock.Write(ctx, m.write))
	} else {
		m.w.check(m, lock.Read(ctx, m.read))
	}
}

func (m *holder) read(ctx context.Context, held holders.Held) error {
	w := m.w
	w.mu.Lock()
	w.reads++
	w.read++
	reads, writes, wrote := w.reads, w.writes, w.wrote
	w.tokens = max(w.tokens, held.Token())
	w.mu.Unlock()
	switch {
	case writes > 0:
		w.Breach("%s reads beside a writer", m.id)
	case reads > stormReaders:
		w.Breach("%s is one of %d readers", m.id, reads)
	case held.Token() <= wrote:
		w.Breach("%s reads with token %d after a write with %d", m.id, held.Token(), wrote)
	}
	m.act(ctx, m.other)
	w.mu.Lock()
	w.reads--
	w.mu.Unlock()
	m.did[1].Add(1)
	return ctx.Err()
}

func (m *holder) write(ctx context.Context, held holders.Held) error {
	w := m.w
	w.mu.Lock()
	w.writes++
	w.written++
	reads, writes, tokens := w.reads, w.writes, w.tokens
	w.tokens, w.wrote = max(w.tokens, held.Token()), max(w.wrote, held.Token())
	w.mu.Unlock()
	switch {
	case reads > 0 || writes > 1:
		w.Breach("%s writes beside %d readers and %d writers", m.id, reads, writes-1)
	case held.Token() <= tokens:
		w.Breach("%s writes with token %d after an act with %d", m.id, held.Token(), tokens)
	}
	m.act(ctx, m.other)
	w.mu.Lock()
	w.writes--
	w.mu.Unlock()
	m.did[2].Add(1)
	return ctx.Err()
}

// Play implements storm.Played.
func (w *holdersStorm) Play(faults int) {
	for i := range faults {
		w.fault()
		time.Sleep(time.Duration(w.random.Float64() * w.random.Float64() * 2 * float64(w.lease)))
		if i%10 == 9 || i == faults-1 {
			w.rest()
		}
		if w.Why() != "" {
			break
		}
	}
	w.calm.Store(true)
	for _, m := range w.machines {
		m.link.Heal()
		m.stop()
	}
	w.ended.Wait()
	time.Sleep(10 * w.lease) // late messages arrive
}

// Sum reports how much a storm has covered.
func (w *holdersStorm) Sum() string {
	return fmt.Sprintf("a lease of %v: %d places held, %d reads, %d writes in %v, slowest to be well again %v", w.lease, w.held,
		w.read, w.written, time.Since(w.Began).Round(time.Second), w.slowest)
}

// fault breaks something, or heals a link.
func (w *holdersStorm) fault() {
	some := func() time.Duration { return time.Duration(w.random.Float64() * 3 * float64(w.lease)) }
	i := w.random.IntN(len(w.machines))
	m := w.machines[i]
	switch w.random.IntN(8) {
	case 0, 1:
		w.Say("nothing passes to %s", m.id)
		m.link.Cut(some())
	case 2:
		w.Say("answers to %s come late, then none", m.id)
		m.link.Slow(some() / 3)
		time.Sleep(some() / 6)
		m.link.Cut(some())
	case 3:
		w.Say("the store is gone for a while")
		gone := some()
		for _, m := range w.machines {
			m.link.Cut(gone)
		}
	case 4:
		w.Say("%s vanishes", m.id)
		m.link.Cut(time.Hour)
		m.stop()
		w.machines = append(w.machines[:i:i], w.machines[i+1:]...)
		w.start()
	case 5:
		name := []string{"places/places/1", "places/places/2", "lock/gate", "lock/places/1", "lock/places/2"}[w.random.IntN(5)]
		w.Say("an operator has the leader of %s step down", name)
		w.ended.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), w.lease)
			defer cancel()
			_ = record.New(w.memory, record.Options{Clock: virtual.Clock(1)}).Ask(ctx, name, election.Request{})
		})
	default:
		m.link.Heal()
	}
}

// rest heals everything, and waits until every machine has done everything.
func (w *holdersStorm) rest() {
	w.Say("calm")
	w.calm.Store(true)
	defer w.calm.Store(false)
	before := make(map[*holder][3]int64)
	for _, m := range w.machines {
		m.link.Heal()
		before[m] = m.done()
	}
	began := time.Now()
	for ; ; time.Sleep(10 * time.Millisecond) {
		waits := ""
		for _, m := range w.machines {
			for what, n := range m.done() {
				if n == before[m][what] {
					waits = fmt.Sprintf("%s has not %s", m.id, []string{"held a place", "read", "written"}[what])
				}
			}
		}
		if waits == "" {
			break
		}
		if time.Since(began) > wellWithin {
			w.Breach("not well %v after all is healed: %s", wellWithin, waits)
			return
		}
	}
	w.slowest = max(w.slowest, time.Since(began))
	w.Say("well")
}

func (m *holder) done() (all [3]int64) {
	for i := range m.did {
		all[i] = m.did[i].Load()
	}
	return all
}
