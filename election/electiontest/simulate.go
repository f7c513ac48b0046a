package electiontest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/bubble"
)

// Simulation makes candidates compete for one election in virtual time: clocks run at different
// rates, up to the full allowed drift; links to the store delay and lose requests and answers,
// deliver them late and are partitioned. Every leadership is held to the last moment of its
// deadline. In real time, no two may overlap, and tokens must grow.
type Simulation struct {
	// Begin starts a store, in the bubble of virtual time. It returns a function with which a
	// candidate opens its backend, over a link of its own and with a clock of its own.
	Begin func() (open func(*BadLink) election.Backend)
	// Meddle, if not nil, is called now and then while elections go on, and does something to the
	// store as an operator would.
	Meddle func(rng *rand.Rand)
	// Damage says that Meddle removes what the store must not lose. Then leaderships may overlap,
	// but tokens must still grow.
	Damage bool
	// Elections is how many elections to simulate, in runs of 500. Candidates is how many
	// candidates take part, by default 5.
	Elections, Candidates int
}

const (
	simulationRun   = 500
	simulationLease = time.Second
	simulationName  = "simulated"
	// stallPerElection is many times what an election takes, including partitions.
	stallPerElection = time.Minute
)

// Simulate runs the simulation with consecutive seeds.
func Simulate(t *testing.T, s Simulation) {
	if s.Candidates == 0 {
		s.Candidates = 5
	}
	for seed := range uint64((s.Elections + simulationRun - 1) / simulationRun) {
		synctest.Test(t, func(t *testing.T) {
			r := &simulationRound{Simulation: s, want: min(simulationRun, s.Elections)}
			r.play(t, seed)
			r.judge(t, seed)
		})
		if t.Failed() {
			return
		}
	}
}

// VirtualClock is a clock on the time of a testing/synctest bubble that runs at another rate, 1
// being the correct one.
func VirtualClock(rate float64) clock.Clock { return bubble.Clock(rate) }

// BadLink is the link from one candidate to the store in a simulation.
type BadLink struct {
	// Clock is the candidate's clock.
	Clock clock.Clock

	mu  sync.Mutex
	rng *rand.Rand
	cut time.Time // until when nothing passes
	// asked is when the request began whose answer arrived last.
	asked time.Time
}

// ErrLink is the error of a call whose request or answer was lost.
var ErrLink = errors.New("electiontest: the request or its answer was lost")

// Pass makes a call over the link: it has its effect after a delay, once or not at all, even when
// the caller no longer waits.
func (l *BadLink) Pass(ctx context.Context, call func()) error {
	asked := time.Now()
	l.mu.Lock()
	cut := asked.Before(l.cut)
	l.mu.Unlock()
	there, back, fate := l.delay(), l.delay(), l.chance(40)
	done := make(chan struct{})
	go func() {
		defer close(done)
		time.Sleep(there)
		if !cut && fate != 0 {
			call()
			time.Sleep(back)
		}
	}()
	select {
	case <-done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if cut || fate < 2 {
		return ErrLink
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = asked
	return nil
}

// answered returns when the request began whose answer arrived last.
func (l *BadLink) answered() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked
}

func (l *BadLink) chance(n int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rng.Int64N(n)
}

// delay is mostly a millisecond or two, and sometimes more than a lease.
func (l *BadLink) delay() time.Duration {
	switch pick := l.chance(100); {
	case pick < 90:
		return time.Duration(l.chance(2000)) * time.Microsecond
	case pick < 98:
		return time.Duration(l.chance(400)) * time.Millisecond
	}
	return time.Duration(l.chance(3000)) * time.Millisecond
}

// cutNowAndThen cuts the link for up to three leases.
func (l *BadLink) cutNowAndThen(ctx context.Context) {
	for ctx.Err() == nil {
		nap(ctx, time.Duration(l.chance(20_000))*time.Millisecond)
		length := time.Duration(l.chance(int64(3 * simulationLease)))
		l.mu.Lock()
		l.cut = time.Now().Add(length)
		l.mu.Unlock()
	}
}

func nap(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// simulationRound is one seed.
type simulationRound struct {
	Simulation
	want int
	over context.CancelFunc

	mu   sync.Mutex
	past []simulated
}

// simulated is a time during which a candidate considered itself the leader.
type simulated struct {
	who      string
	token    election.Token
	from, to time.Time
	// asked is when the request began that the store granted. The candidate had read the wall
	// clock by then.
	asked time.Time
}

func (r *simulationRound) play(t *testing.T, seed uint64) {
	ctx, cancel := context.WithCancel(t.Context())
	r.over = cancel
	open := r.Begin()
	var group sync.WaitGroup
	for i := range r.Candidates {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		// Two and a half per cent on either side are five between two clocks.
		rate := []float64{0.975, 1.025, 1}[rng.IntN(3)]
		link := &BadLink{Clock: VirtualClock(rate), rng: rand.New(rand.NewPCG(seed, 100+uint64(i)))}
		elector, err := election.New(open(link), simulationName, election.Options{ID: fmt.Sprint("c", i),
			Lease: simulationLease, Clock: link.Clock, Retry: 20 * time.Millisecond, Priority: i % 2})
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() { _ = elector.Run(ctx, r.lead(rng, link)) })
		group.Go(func() { link.cutNowAndThen(ctx) })
	}
	if r.Meddle != nil {
		rng := rand.New(rand.NewPCG(seed, 99))
		group.Go(func() {
			for ctx.Err() == nil {
				nap(ctx, time.Duration(rng.IntN(10_000))*time.Millisecond)
				r.Meddle(rng)
			}
		})
	}
	stalled := time.AfterFunc(time.Duration(r.want)*stallPerElection, r.over)
	group.Wait()
	if !stalled.Stop() {
		t.Errorf("seed %d: %d leaderships in %d times %v: the election has stalled", seed, len(r.past), r.want, stallPerElection)
	}
	time.Sleep(time.Minute) // whatever is late arrives
}

// lead leads for a while, or to the very last moment.
func (r *simulationRound) lead(rng *rand.Rand, link *BadLink) func(context.Context, election.Leadership) error {
	return func(ctx context.Context, lead election.Leadership) error {
		b := simulated{who: lead.ID(), token: lead.Token(), from: time.Now(), asked: link.answered()}
		enough := time.NewTimer(time.Duration(rng.Int64N(int64(3 * simulationLease))))
		defer enough.Stop()
		select {
		case <-ctx.Done():
			var lost *election.LostError
			for errors.As(context.Cause(ctx), &lost) && lost.Reason == election.ReasonExpired && lead.Remaining() > 0 {
				time.Sleep(lead.Remaining()/2 + time.Microsecond)
			}
		case <-enough.C:
		}
		b.to = time.Now()
		r.file(b)
		return nil
	}
}

func (r *simulationRound) file(b simulated) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.past = append(r.past, b); len(r.past) == r.want {
		r.over()
	}
}

func (r *simulationRound) judge(t *testing.T, seed uint64) {
	slices.SortFunc(r.past, func(a, b simulated) int { return a.from.Compare(b.from) })
	for i := 1; i < len(r.past); i++ {
		before, after := r.past[i-1], r.past[i]
		beside := after.from.Before(before.to)
		if r.Damage && after.asked.Before(before.to) {
			continue // granted in one order, reported in the other
		}
		if beside {
			t.Errorf("seed %d: %s (token %d) led beside %s (token %d) for %v", seed, after.who, after.token,
				before.who, before.token, before.to.Sub(after.from))
		}
		if after.token <= before.token {
			t.Errorf("seed %d: token %d after %d", seed, after.token, before.token)
		}
	}
}
